"""Where values of a deployment come from, which of them counts, and what decides nothing."""

import json
from pathlib import Path

import pytest

from mstarc import driver
from mstarc.cli.main import run_command
from mstarc.diagnostics import DiagnosticSink
from mstarc.options import CompileOptions
from mstarc.source import SourceFile
from tests.unit.deployment.test_mutations import SPEC, VALID

WITH_CONFIG = SPEC.replace(
    "model pair\n",
    'model pair\n\nconfig {\n  layers : int = 2 as "depth"\n  heads  : int = 2\n}\n\n'
    'variant "pair_large" from "org/large" { layers = 4 }\n',
).replace("kv { layers = 2, heads = 2,", "kv { layers = layers, heads = heads,")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pair.mstar").write_text(WITH_CONFIG)
    (tmp_path / "pair.yaml").write_text(VALID)
    return tmp_path


def placement(folder: Path) -> dict[str, object]:
    path = folder / "plan" / "placements" / "pair" / "placement.json"
    found: dict[str, object] = json.loads(path.read_text())
    return found


def compiled(*arguments: str) -> int:
    return run_command(["compile", "pair.yaml", "-o", "plan", "--format", "concise", *arguments])


def test_the_command_line_stands_above_the_environment_and_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compiled() == 0
    assert placement(folder)["max_requests"] == 4
    monkeypatch.setenv("MSTARC_MAX_CONCURRENT_REQUESTS", "3")
    assert compiled() == 0
    assert placement(folder)["max_requests"] == 3
    assert compiled("--set", "max_concurrent_requests=2") == 0
    assert placement(folder)["max_requests"] == 2


def test_config_values_are_set_by_their_public_names(folder: Path) -> None:
    (folder / "pair.yaml").write_text(VALID + "model_kwargs: {depth: 6}\n")
    assert compiled() == 0
    assert "config layers = 6" in (folder / "plan" / "program.mir").read_text()
    assert compiled("--set", "depth=8") == 0
    assert "config layers = 8" in (folder / "plan" / "program.mir").read_text()


def test_a_variant_brings_its_checkpoint_and_values(folder: Path) -> None:
    (folder / "pair.yaml").write_text(VALID.replace("model: pair", "model: pair_large"))
    assert compiled() == 0
    program = (folder / "plan" / "program.mir").read_text()
    assert 'program pair from "org/large"' in program
    assert "config layers = 4" in program


def test_a_variant_is_named_on_the_command_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["compile", "pair.mstar", "-o", "plan", "--format", "concise", "--variant"]
    assert run_command([*command, "pair_large"]) == 0
    assert "config layers = 4" in (folder / "plan" / "program.mir").read_text()
    capsys.readouterr()
    assert run_command([*command, "pair_larger"]) == 1
    assert "error[MS0634] `pair` has no variant `pair_larger`" in capsys.readouterr().out
    assert compiled("--variant", "pair_large") == 2


def test_a_variant_without_an_output_needs_no_rank_for_what_makes_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "model: {}\nnode_groups: [{{node_names: [dit, vae_encoder, vae_decoder], ranks: [0]}}]\n"
    (folder / "cosmos.yaml").write_text(text.format("cosmos3_droid"))
    assert run_command(["compile", "cosmos.yaml", "-o", "plan", "--format", "concise"]) == 0
    program = (folder / "plan" / "program.mir").read_text()
    for left_out in ("output sound", "node audio_decoder", "walk video_sound_gen", "wants sound"):
        assert left_out not in program
    (folder / "cosmos.yaml").write_text(text.format("cosmos3"))
    assert run_command(["compile", "cosmos.yaml", "-o", "other", "--format", "concise"]) == 1
    assert "MS0607" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("added", "code", "said"),
    [
        ("model_kwargs: {depht: 6}\n", "MS0603", "did you mean `depth`?"),
        ("model_kwargs: {depth: many}\n", "MS0318", "is not an `int`"),
        ("model_kwargs: {cuda_graph: true}\n", "MS0630", "`cuda_graph` changes nothing"),
        ("kv_cache: {flashinfer_backend: fa2}\n", "MS0630", "`flashinfer_backend` changes"),
        ("kv_cache: {flashinfer_backend: fa22}\n", "MS0605", "did you mean `fa2`, `fa3`?"),
        ("resources: {kv_cache: {page_szie: 2}}\n", "MS0603", "did you mean `page_size`?"),
        ("kv_cache: {}\nresources: {kv_cache: {}}\n", "MS0602", "first here"),
    ],
)
def test_every_key_is_read_or_told(
    folder: Path, capsys: pytest.CaptureFixture[str], added: str, code: str, said: str
) -> None:
    (folder / "pair.yaml").write_text(VALID + added)
    compiled("--format", "human")
    out = capsys.readouterr().out
    assert f"[{code}]" in out
    assert said in out
    assert "pair.yaml:1" in out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--set", "max_seq_length=4"), "MS0633", "did you mean `max_seq_len`?"),
        (("--set", "max_seq_len"), "MS0633", "gives no value"),
        (("--set", "max_seq_len=some"), "MS0605", "found `some`"),
        (("--set", "kv_cache.pages=2"), "MS0633", "there is no setting `kv_cache.pages`"),
        (("--set", "cuda_graph=true"), "MS0633", "there is no setting `cuda_graph`"),
    ],
)
def test_a_wrong_setting_is_refused(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    code: str,
    said: str,
) -> None:
    assert compiled("--format", "human", *arguments) == 1
    out = capsys.readouterr().out
    assert f"error[{code}]" in out
    assert said in out
    assert not (folder / "plan").exists()


def test_a_variable_that_is_nearly_one_of_ours_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MSTARC_MAX_SEQ_LEM", "8192")
    monkeypatch.setenv("MSTARC_CACHE", "somewhere")
    assert compiled() == 1
    out = capsys.readouterr().out
    assert out.count("error[") == 1
    assert "MSTARC_MAX_SEQ_LEM" in out
    assert not (folder / "plan").exists()


def test_a_setting_without_a_deployment_holds(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--set", "max_seq_len=64", "-o", "plan", "--format", "concise"]
    assert run_command(["compile", "pair.mstar", *arguments]) == 0
    assert capsys.readouterr().out == ""
    assert '"max_tokens": 64' in (folder / "plan/placements/cpu/placement.json").read_text()


def test_two_deployments_of_one_plan_agree_on_config() -> None:
    spec = SourceFile(path="pair.mstar", text=WITH_CONFIG)
    files = tuple(
        SourceFile(path=f"{number}.yaml", text=f"{VALID}model_kwargs: {{layers: {number}}}\n")
        for number in (2, 3)
    )
    outcome = driver.compile_spec(spec, CompileOptions(deployments=files))
    (found,) = outcome.diagnostics
    assert (found.code, found.primary.span.path) == ("MS0632", "3.yaml")


def test_explain_shows_every_source_and_the_one_that_counts(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MSTARC_MAX_SEQ_LEN", "2048")
    assert run_command(["explain", "--setting", "max_seq_len", "pair.yaml"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[2:]] == [
        ["default", "that", "of", "the", "device", "kind"],
        ["file", "1024", "pair.yaml:2:14"],
        [">", "environment", "2048", "$MSTARC_MAX_SEQ_LEN"],
        ["command", "line", "-", "--set", "max_seq_len=…"],
    ]
    assert run_command(["explain", "--setting", "layers", "pair.yaml", "--set", "depth=9"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["spec", "2", "pair.mstar:6:3"]
    assert lines[-1].split() == [">", "command", "line", "9", "--set", "model_kwargs.depth=…"]
    assert run_command(["explain", "--setting", "devices", "pair.yaml"]) == 0
    assert "> default       2xH200" in capsys.readouterr().out
    assert run_command(["explain", "--setting", "max_seq_lem"]) == 1
    assert "MS0633" in capsys.readouterr().out


def test_what_is_read_of_a_file_without_devices_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compiled() == 0
    assert "pair.yaml names no devices: placed on H200s" in capsys.readouterr().err
    assert compiled("--placement", "L40S") == 0
    assert "names no devices" not in capsys.readouterr().err
    devices = placement(folder)["devices"]
    assert isinstance(devices, list)
    assert [device["kind"] for device in devices] == ["L40S", "L40S"]


def test_devices_may_come_from_the_environment(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MSTARC_DEVICES", "2xA100")
    assert compiled() == 0
    assert '"A100"' in (folder / "plan/placements/pair/placement.json").read_text()
    assert compiled("--placement", "2xL40S") == 0
    assert '"L40S"' in (folder / "plan/placements/pair/placement.json").read_text()
    capsys.readouterr()
    assert run_command(["explain", "--setting", "devices", "pair.yaml"]) == 0
    assert "> environment   2xA100  $MSTARC_DEVICES" in capsys.readouterr().out
    monkeypatch.setenv("MSTARC_DEVICE", "cpu")
    assert compiled() == 1
    assert "MS0633" in capsys.readouterr().out


def test_a_file_of_an_unknown_model_names_the_nearest(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "pair.yaml").write_text(VALID.replace("model: pair", "model: pait"))
    assert compiled("--format", "human") == 1
    out = capsys.readouterr().out
    assert "error[MS0631]: no spec is of the model `pait`" in out
    assert "pair.yaml:1:8" in out
    assert "did you mean `pair`?" in out


def test_settings_are_read_by_every_deployment() -> None:
    sink = DiagnosticSink()
    file = SourceFile(path="pair.yaml", text=VALID)
    from mstarc.deployment import read_deployment
    from mstarc.deployment.settings import from_command_line, settled

    deployment = read_deployment(file, sink)
    assert deployment is not None
    given = from_command_line(["page_size=32", "kv_cache.page_size=64"], sink)
    changed = settled(deployment, given, sink)
    assert changed.page_tokens is not None
    assert (changed.page_tokens.value, sink.diagnostics) == (64, ())


def test_a_number_has_a_least_value_of_its_own(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compiled("--set", "stretch=0") == 0
    assert compiled("--set", "max_concurrent_requests=0") != 0
    assert "expected a whole number of at least 1, found `0`" in capsys.readouterr().out


def test_a_page_has_a_power_of_two_of_rows(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compiled("--set", "page_size=64") == 0
    assert compiled("--set", "page_size=13") != 0
    shown = capsys.readouterr().out
    assert "the kernels are built for no pages of 13 rows" in shown
    assert "a power of two up to 512" in shown
