"""The learners that the tests of the common shell run over."""

import nearkin

LEARNERS = (
    nearkin.OASIS,
    nearkin.ODML,
    nearkin.LOSL,
    nearkin.LODML,
    nearkin.RobustOASIS,
    nearkin.RobustODML,
    nearkin.RobustLOSL,
    nearkin.RobustLODML,
    nearkin.OPML,
    nearkin.SLMOML,
    nearkin.ITML,
    nearkin.RobustOPML,
    nearkin.RobustSLMOML,
    nearkin.RobustITML,
    nearkin.LPAODML,
    nearkin.RobustLPAODML,
    nearkin.OMDML,
    nearkin.LOMDML,
    nearkin.LSMDML,
    nearkin.RobustOMDML,
    nearkin.RobustLOMDML,
    nearkin.RobustLSMDML,
    nearkin.Euclidean,
)

#: Without robust forms that differ from a plain one in a default only: what is said about the one holds for the other.
DIFFERENT = tuple(
    cls
    for cls in LEARNERS
    if not cls.__name__.startswith("Robust") or cls.__name__[6:] in ("ODML", "LODML", "OASIS", "LOSL")
)
