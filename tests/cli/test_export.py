from __future__ import annotations

import pytest

from tests.jobs.office import command, done, make_office, refused, told

onnxruntime = pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def office(tmp_path_factory):
    return make_office(tmp_path_factory.mktemp("office"))


def test_a_guests_encoder(office):
    said = told(office, "export shop --onnx")
    assert said["path"] == "shop/encoder.onnx"
    assert said["difference"] < 1e-4
    session = onnxruntime.InferenceSession(office / "shop" / "encoder.onnx")
    assert [each.name for each in session.get_inputs()] == list(said["inputs"]) == ["rows"]
    done(office, "guest represent shop.csv --model shop --secret secret --out more.fedonce")  # the folder still loads


def test_a_hosts_model(office):
    shown = done(office, "export bank --onnx --out head.onnx --quiet")
    assert "head.onnx: own " in shown
    assert "probabilities nx2" in shown
    assert "checked with onnxruntime: largest difference" in shown
    assert onnxruntime.InferenceSession(office / "head.onnx").get_outputs()[0].name == "probabilities"


def test_what_cannot_be_exported(office):
    refused(office, 3, "--onnx, the one format so far", "export shop")
    refused(office, 3, "no model in nowhere", "export nowhere --onnx")
    refused(office, 3, ("none/x.onnx", "written"), "export shop --onnx --out none/x.onnx")
    assert command(office, "export --onnx").code == 2
