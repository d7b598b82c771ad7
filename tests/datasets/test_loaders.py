"""Each loader on small files in the owner's format, and on the real files where FEDONCE_DATA has them."""

from __future__ import annotations

import gzip
import pickle

import numpy as np
import pytest

from fedonce import InputError
from fedonce.datasets import (
    FETCHERS,
    fetch_cifar10,
    fetch_covtype,
    fetch_fashion_mnist,
    fetch_gisette,
    fetch_kmnist,
    fetch_mnist,
    fetch_movielens,
    fetch_nus_wide,
    fetch_phishing,
    fetch_superconduct,
    fetch_ujiindoorloc,
    superconduct,
    ujiindoorloc,
)
from fedonce.datasets.nus_wide import VIEWS
from tests.datasets.test_formats import archive, batch, idx


def put(folder, name, content):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


# Loaders for small files in the owner's format ------------------------------------------------------------------------


@pytest.fixture
def gisette_rows(rng):
    return rng.integers(0, 999, (3, 5000))


def test_gisette_from_uci(tmp_path, gisette_rows):
    put(tmp_path, "gisette/gisette_train.data", "".join(" ".join(map(str, row)) + " \n" for row in gisette_rows))
    put(tmp_path, "gisette/gisette_train.labels", "1\n-1\n1\n")
    data = fetch_gisette(tmp_path, verify=False)
    np.testing.assert_array_equal(data.data, gisette_rows)
    assert data.target.tolist() == [1, -1, 1]
    assert data.parties == 10


def test_gisette_from_libsvm(tmp_path, gisette_rows):
    lines = [" ".join(["1", *(f"{j}:{v}" for j, v in enumerate(row, start=1) if v)]) for row in gisette_rows]
    import bz2

    put(tmp_path, "gisette/gisette_scale.bz2", bz2.compress("\n".join(lines).encode()))
    data = fetch_gisette(tmp_path, download=False, verify=False)
    np.testing.assert_array_equal(data.data, gisette_rows)


def test_gisette_labels_must_fit(tmp_path, gisette_rows):
    put(tmp_path, "gisette/gisette_train.data", "".join(" ".join(map(str, row)) + "\n" for row in gisette_rows))
    put(tmp_path, "gisette/gisette_train.labels", "1\n-1\n")
    with pytest.raises(InputError, match="gisette_train.labels must hold a label, -1 or 1, for each of 3 rows. Got 2"):
        fetch_gisette(tmp_path, verify=False)


def test_gisette_whose_sums_are_wrong_is_refused(tmp_path):
    put(tmp_path, "gisette/gisette_train.data", "1 2\n")
    put(tmp_path, "gisette/gisette_train.labels", "1\n")
    with pytest.raises(InputError, match="gisette_train.data is refused: it has sha256"):
        fetch_gisette(tmp_path)


def write_nus_wide(folder, rng, flat=False):
    tables = {}
    for part, n in (("Train", 4), ("Test", 3)):
        for view, width in VIEWS.items():
            tables[part, view] = rng.random((n, width)).round(4)
            text = "".join(
                " ".join(map(str, row)) + " \n" for row in tables[part, view]
            )  # a blank at the end, as theirs
            put(folder, f"nus-wide/{'' if flat else 'Low_Level_Features/'}{part}_Normalized_{view}.dat", text)
        put(folder, f"nus-wide/{'' if flat else 'TrainTestLabels/'}Labels_sky_{part}.txt", "1\n0\n0\n1\n"[: 2 * n])
    return tables


@pytest.mark.parametrize("flat", [False, True])
def test_nus_wide(tmp_path, rng, flat):
    tables = write_nus_wide(tmp_path, rng, flat)
    data = fetch_nus_wide(tmp_path, verify=False)
    assert data.data.shape == (7, 634)
    assert list(data.parties) == ["CH", "CORR", "EDH", "WT", "CM55"]
    split = data.split()
    for view, columns in data.parties.items():
        np.testing.assert_allclose(split.X_train[:, columns], tables["Train", view], rtol=1e-6)
        np.testing.assert_allclose(split.X_test[:, columns], tables["Test", view], rtol=1e-6)
    assert split.y_train.tolist() == [1, 0, 0, 1]
    assert data.feature_names[64] == "CORR_1"


def test_nus_wide_labels_from_the_archive(tmp_path, rng):
    write_nus_wide(tmp_path, rng)
    labels = {}
    for part in ("Train", "Test"):
        path = tmp_path / f"nus-wide/TrainTestLabels/Labels_sky_{part}.txt"
        labels[f"TrainTestLabels/{path.name}"] = path.read_bytes()
        path.unlink()
    archive(tmp_path / "nus-wide" / "Groundtruth.zip", labels)
    assert fetch_nus_wide(tmp_path, verify=False).target.tolist() == [1, 0, 0, 1, 1, 0, 0]


def test_nus_wide_tells_what_to_put_where(tmp_path):
    with pytest.raises(
        InputError,
        match=r"(?s)Low_Level_Features/Train_Normalized_CH.dat from .*NUS-WIDE.html.*rar and Groundtruth.zip",
    ):
        fetch_nus_wide(tmp_path)


def test_nus_wide_with_a_row_too_few(tmp_path, rng):
    write_nus_wide(tmp_path, rng)
    put(tmp_path, "nus-wide/Low_Level_Features/Test_Normalized_WT.dat", " ".join(["0"] * 128) + "\n")
    with pytest.raises(InputError, match="Test_Normalized_WT.dat must have a row for each of 3 labels. Got 1"):
        fetch_nus_wide(tmp_path, verify=False)


def write_idx(folder, name, parts, packed=True):
    for part, (images, labels) in parts.items():
        for kind, values in (("images-idx3", images), ("labels-idx1", labels)):
            content = idx(values)
            put(
                folder,
                f"{name}/{part}-{kind}-ubyte{'.gz' if packed else ''}",
                gzip.compress(content) if packed else content,
            )


def pictures(rng, n, side=28):
    return rng.integers(0, 256, (n, side, side), dtype=np.uint8), rng.integers(0, 10, n, dtype=np.uint8)


@pytest.mark.parametrize(("fetch", "name"), [(fetch_mnist, "mnist"), (fetch_fashion_mnist, "fashion-mnist")])
def test_idx_images(tmp_path, rng, fetch, name):
    train, test = pictures(rng, 5), pictures(rng, 2)
    write_idx(tmp_path, name, {"train": train, "t10k": test})
    split = fetch(tmp_path, verify=False).split()
    np.testing.assert_array_equal(split.X_train.reshape(5, 28, 28), train[0])
    np.testing.assert_array_equal(split.y_test, test[1])


def test_kmnist_of_test_images_alone_is_split(tmp_path, rng):
    write_idx(tmp_path, "kmnist", {"t10k": (pictures(rng, 200)[0], np.arange(200, dtype=np.uint8) % 10)}, packed=False)
    data = fetch_kmnist(tmp_path, download=False, verify=False)
    assert [len(part) for part in data.split()] == [180, 20, 180, 20]


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (np.zeros((2, 28, 28), np.uint8), np.zeros(3, np.uint8), "Got 2 images and 3 labels"),
        (np.zeros((2, 28, 28), np.uint8), np.full(2, 10, np.uint8), "labels up to 10"),
        (np.zeros((2, 27, 28), np.uint8), np.zeros(2, np.uint8), "28 x 28 pixels. Got 27 x 28"),
    ],
)
def test_wrong_images(tmp_path, images, labels, message):
    write_idx(tmp_path, "kmnist", {"t10k": (images, labels)})
    with pytest.raises(InputError, match=message):
        fetch_kmnist(tmp_path, download=False, verify=False)


def test_a_truncated_gzip_is_refused_twice(tmp_path, rng):
    write_idx(tmp_path, "kmnist", {"t10k": pictures(rng, 20)})
    path = tmp_path / "kmnist" / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(InputError, match="is refused: it has sha256"):
        fetch_kmnist(tmp_path, download=False)
    with pytest.raises(InputError, match="t10k-images-idx3-ubyte.gz cannot be read: it is damaged or cut off"):
        fetch_kmnist(tmp_path, download=False, verify=False)


def test_cifar10_from_the_archive(tmp_path):
    (tmp_path / "cifar10").mkdir()
    names = [*(f"data_batch_{j}" for j in range(1, 6)), "test_batch"]
    members = {f"cifar-10-batches-py/{name}": pickle.dumps(batch(), 2) for name in names}
    archive(tmp_path / "cifar10" / "cifar-10-python.tar.gz", members)
    data = fetch_cifar10(tmp_path, verify=False)
    assert data.data.shape == (12, 3072)
    assert data.n_official_test == 2
    assert data.parties["party1"].shape == (3, 16, 16)


def test_cifar10_unpacked_by_hand(tmp_path):
    for name in [*(f"data_batch_{j}" for j in range(1, 6)), "test_batch"]:
        put(tmp_path, f"cifar10/{name}", pickle.dumps(batch(), 2))
    assert fetch_cifar10(tmp_path, verify=False).data.shape == (12, 3072)


@pytest.mark.parametrize(
    ("content", "message"),
    [("7 1:1\n3 2:1\n", r"labels 0 and 1, or -1 and 1. Got \[3.0, 7.0\]"), ("", "is empty")],
)
def test_wrong_phishing_files(tmp_path, content, message):
    put(tmp_path, "phishing/phishing", content)
    with pytest.raises(InputError, match=message):
        fetch_phishing(tmp_path, verify=False)


@pytest.mark.parametrize("line_", ["1,2", "1," * 30 + "x", "1," * 30 + "1"])
def test_wrong_arff_files(tmp_path, line_):
    head = "@relation p\n" + "".join(f"@attribute a{j} {{-1,0,1}}\n" for j in range(31)) + "@data\n"
    put(tmp_path, "phishing/Training Dataset.arff", head + line_ + "\n")
    with pytest.raises(InputError, match="Training Dataset.arff"):
        fetch_phishing(tmp_path, download=False, verify=False)


def line(n, last):
    return ",".join(["1"] * (n - 1) + [str(last)]) + "\n"


def test_covtype_tasks(tmp_path):
    put(tmp_path, "covtype/covtype.data.gz", gzip.compress("".join(line(55, c) for c in (1, 2, 7)).encode()))
    assert fetch_covtype(tmp_path, verify=False).target.tolist() == [0, 1, 0]
    assert fetch_covtype(tmp_path, verify=False, classes=7).target.tolist() == [1, 2, 7]
    with pytest.raises(InputError, match="'classes' parameter of fetch_covtype must be 2 or 7. Got 3"):
        fetch_covtype(tmp_path, classes=3)
    put(tmp_path, "covtype/covtype.data.gz", gzip.compress((line(55, 1) + "\n" + line(55, 8)).encode()))
    with pytest.raises(InputError, match="covtype.data.gz, line 3: cover type 8"):
        fetch_covtype(tmp_path, verify=False)


def uji(rows):
    return (
        ",".join((*ujiindoorloc.SIGNALS, *ujiindoorloc.OTHERS))
        + "\n"
        + "".join(",".join(map(str, r)) + "\n" for r in rows)
    )


def test_ujiindoorloc_targets(tmp_path):
    rows = [[100] + [-50] * 519 + [-7541.2643, 4864920.9, 2, 1, 106, 2, 2, 23, 1371713733 + j] for j in range(20)]
    (tmp_path / "ujiindoorloc").mkdir()
    archive(tmp_path / "ujiindoorloc" / "ujiindoorloc.zip", {"UJIndoorLoc/trainingData.csv": uji(rows).encode()})
    paper = fetch_ujiindoorloc(tmp_path, verify=False)
    assert paper.data.shape == (20, 528)
    assert paper.data[0, :2].tolist() == [-110, -50]
    assert paper.data[0, 520] == -7541.2643
    assert paper.target[1] == 1371713734
    assert paper.split().y_train.max() == 1
    low, high = paper.target_range(seed=0)
    np.testing.assert_allclose(low + paper.split(seed=0).y_test * (high - low), paper.target[paper.rows(seed=0)[1]])
    real = fetch_ujiindoorloc(tmp_path, verify=False, target="longitude")
    assert real.title.startswith("ujiindoorloc longitude (files not verified")
    assert real.data.shape == (20, 520)
    assert real.target[0] == -7541.2643
    assert fetch_ujiindoorloc(tmp_path, verify=False, target="latitude").target[0] == 4864920.9
    with pytest.raises(InputError, match="'target' parameter of fetch_ujiindoorloc"):
        fetch_ujiindoorloc(tmp_path, target="floor")


def test_a_csv_with_a_missing_column_or_a_text_among_numbers(tmp_path):
    names = [*superconduct.NAMES, "critical_temp"]
    (tmp_path / "superconduct").mkdir()
    good = ",".join(names) + "\n" + line(82, 29) + line(82, 30)
    path = tmp_path / "superconduct" / "superconductivty+data.zip"
    archive(path, {"train.csv": good.encode()})
    assert fetch_superconduct(tmp_path, verify=False).target.tolist() == [29, 30]
    archive(path, {"train.csv": good.replace("mean_fie,", "", 1).encode()})
    with pytest.raises(InputError, match=r"superconductivty\+data.zip, line 1: column 'mean_fie' is missing"):
        fetch_superconduct(tmp_path, verify=False)
    archive(path, {"train.csv": (good + line(82, "warm")).encode()})
    with pytest.raises(InputError, match=r"data.zip, line 4, column 82: 'warm' is not a number"):
        fetch_superconduct(tmp_path, verify=False)


def write_movielens(folder, ratings="1::10::5::978300760\n2::20::3::1046454590\n", **files):
    content = {
        "ratings.dat": ratings,
        "users.dat": "1::F::1::10::48067\n2::M::56::16::70072\n",
        "movies.dat": "10::Misérables, Les (1995)::Drama|Musical\n20::Untitled::Comedy\n",
    } | files
    (folder / "movielens-1m").mkdir(exist_ok=True)
    members = {f"ml-1m/{name}": text.encode("latin1") for name, text in content.items()}
    archive(folder / "movielens-1m" / "ml-1m.zip", members)


def test_movielens(tmp_path):
    write_movielens(tmp_path)
    data = fetch_movielens(tmp_path, verify=False)
    assert data.data.to_pylist() == [
        {
            "user": "1",
            "movie": "10",
            "gender": "F",
            "age": "1",
            "occupation": "10",
            "rating_year": "2000",
            "film_year": "1995",
            "genre": "Drama",
        },
        {
            "user": "2",
            "movie": "20",
            "gender": "M",
            "age": "56",
            "occupation": "16",
            "rating_year": "2003",
            "film_year": "unknown",
            "genre": "Comedy",
        },
    ]
    assert data.target.tolist() == [5, 3]
    assert data.title == "movielens (files not verified; 2 of 1,000,209 rows)"
    assert sum(data.parties.values(), []) == list(data.feature_names)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"ratings": "1::10::6::978300760\n"}, "line 1: 6 stars"),
        ({"ratings": "1::10::978300760\n"}, r"\(ratings.dat\), line 1: 3 columns where there must be 4"),
        ({"ratings": "9::10::5::978300760\n"}, "rates user 9, who is not in users.dat"),
        ({"users.dat": "1::F::1\n"}, r"\(users.dat\), line 1: must be a number and 4 fields"),
    ],
)
def test_wrong_movielens_files(tmp_path, files, message):
    write_movielens(tmp_path, **files)
    with pytest.raises(InputError, match=message):
        fetch_movielens(tmp_path, verify=False)


# Real files -----------------------------------------------------------------------------------------------------------

SHAPES = {
    "covtype": (False, (92962, 54), [47634, 45328]),
    "phishing": (True, (11055, 68), [4898, 6157]),
    "ujiindoorloc": (True, (19937, 528), None),
    "superconduct": (True, (21263, 81), None),
    "mnist": (True, (70000, 784), [6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958]),
    "kmnist": (False, (10000, 784), [1000] * 10),
    "fashion-mnist": (True, (70000, 784), [7000] * 10),
    "movielens": (False, (487650, 8), [0, 27472, 53838, 127216, 170579, 108545]),
    "cifar10": (False, (19965, 3072), None),
}


@pytest.mark.parametrize("name", SHAPES)
def test_real_files(data_folder, name):
    complete, shape, counts = SHAPES[name]
    data = FETCHERS[name](data_folder, download=False)
    assert data.complete is complete
    assert data.data.shape == shape
    assert len(data.feature_names) == shape[1]
    if counts:
        assert np.bincount(data.target.astype(int)).tolist() == counts
    X, X_test, y, y_test = data.split(seed=0)
    assert X.shape[0] == len(y)
    assert X_test.shape[0] == len(y_test)
    assert data.licence
    assert data.citation


def test_real_values(data_folder):
    temperatures = fetch_superconduct(data_folder).target
    assert (temperatures.min(), temperatures.max()) == (0.00021, 185)
    assert temperatures.mean() == pytest.approx(34.4212, abs=1e-4)
    signals = fetch_ujiindoorloc(data_folder, target="longitude").data
    assert (signals.min(), signals.max()) == (-110, 0)
    covers = fetch_covtype(data_folder, classes=7).target
    assert np.bincount(covers).tolist() == [0, 33894, 45328, 5721, 439, 1519, 2779, 3282]


def test_phishing_from_uci_is_libsvm_s(data_folder, tmp_path):
    import shutil

    (tmp_path / "phishing").mkdir()
    shutil.copy(data_folder / "phishing" / "Training Dataset.arff", tmp_path / "phishing")
    ours, theirs = fetch_phishing(tmp_path, download=False), fetch_phishing(data_folder)
    np.testing.assert_array_equal(ours.data, theirs.data)
    np.testing.assert_array_equal(ours.target, theirs.target)
