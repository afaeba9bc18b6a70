import kills
import pytest
from crash_cases import Laboratory

SAID = []


@pytest.fixture(scope="session")
def laboratory(tiny_model_dir, tmp_path_factory):
    made = Laboratory(tmp_path_factory.mktemp("durability"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def stopped_calls(is_ci):
    """The right to stop system calls, without which no process dies at a chosen one."""
    reason = kills.whynot()
    if reason and is_ci:
        pytest.fail(f"no process can be killed at its system calls here: {reason}")
    if reason:
        pytest.skip(f"{reason}: run make durability where seccomp is allowed")


@pytest.fixture(scope="session")
def say():
    """Have a line printed when all tests are done."""
    return SAID.append


def pytest_terminal_summary(terminalreporter):
    for line in SAID:
        terminalreporter.write_line(line)
