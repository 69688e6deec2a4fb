"""The shipped profiles: hash, error table and KV capacity in each file are true."""

import json
import re
from pathlib import Path

import pytest

from bench.config import CONF
from bench.simulator.profile import profile_hash
from bench.validate.published import kv_tokens
from test_config import compose

PROFILES = ["h100_tp2", "h100_tp2_bf16kv", "h100_tp4", "h100_tp4_bf16kv"]
ROWS = json.loads((Path(CONF).parent / "results" / "validation" / "validation.json").read_text())


def errors(table: str, tensor_parallel: int) -> list[float]:
    return [
        abs(row["error"])
        for row in ROWS["rows"]
        if row["table"] == table and row["row"].endswith(f"TP={tensor_parallel}")
    ]


@pytest.mark.parametrize("name", PROFILES)
def test_the_file_states_its_hash_and_errors(name: str) -> None:
    (job,) = compose(["scenario=single", f"engine={name}"])
    engine = job[0].engine
    text = (CONF / "engine" / f"{name}.yaml").read_text()
    assert f"# profile hash {profile_hash(engine)}" in text
    assert engine.provenance.startswith("predicted: ")
    size = engine.tensor_parallel
    assert engine.kv_tokens == pytest.approx(kv_tokens(size, engine.kv_dtype), rel=0.003)
    for table, label in (
        ("aiconfigurator_0_12_prefill_ms", "prefill"),
        ("aiconfigurator_0_12_decode_ms_4k", "decode"),
    ):
        found = errors(table, size)
        mean, largest = 100 * sum(found) / len(found), 100 * max(found)
        stated = re.search(rf"#  *{label}.* mean +([\d.]+) %, largest +([\d.]+) %", text)
        assert stated is not None, f"{label}: mean {mean:.1f} %, largest {largest:.1f} %"
        assert [float(one) for one in stated.groups()] == pytest.approx([mean, largest], abs=0.06)
