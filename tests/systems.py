"""The learners that every test of the common shell runs over."""

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
