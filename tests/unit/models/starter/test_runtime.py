"""What the runtime child asks the processor for."""

from tenure.models.starter.runtime import missing_flags


def test_the_flags_that_are_missing_are_named():
    assert missing_flags("processor : 0\nflags\t\t: fpu avx2 fma f16c bmi2\n") == []
    assert missing_flags("flags : fpu avx2 fma\n") == ["f16c", "bmi2"]
    assert missing_flags("Features : fp asimd\n") == []
