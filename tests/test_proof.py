from makers import make_proof_level, make_selftest


def test_the_largest_load_lies_below_the_first_that_was_not_carried() -> None:
    test = make_selftest(
        make_proof_level(100),
        make_proof_level(500, 5.0),
        make_proof_level(1000),
        make_proof_level(20, prompt_tokens=16_000),
    )
    assert test.prompt_lengths == [500, 16_000]
    short, long = test.largest(500), test.largest(16_000)
    assert short is not None and short.streams == 100
    assert long is not None and long.streams == 20
    assert test.largest(4_000) is None


def test_what_carries_a_load() -> None:
    assert make_proof_level(10, 4.99).carried
    assert not make_proof_level(10, 5.0).carried
    assert not make_proof_level(10, failed=1).carried
    assert not make_proof_level(10, error="cut").carried
    assert not make_proof_level(10, ttft_added_ms_p99=None).carried


def test_who_was_the_limit() -> None:
    assert make_proof_level(10).limited_by == ""
    assert make_proof_level(10, 9.0, client_cpu=0.9).limited_by == "client"
    assert make_proof_level(10, 9.0, server_cpu=0.9, client_cpu=0.9).limited_by == "null server"
    assert "other processes" in make_proof_level(10, 9.0).limited_by
