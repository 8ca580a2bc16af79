"""The kernel at the end of a pass leaves what its single operations leave."""

from dataclasses import fields

import pytest
import torch

from mstarc_runtime.engine.flag_columns import COLUMNS
from mstarc_runtime.engine.pass_log import PassEnd
from mstarc_runtime.kvcache.mirror import MovingRows

pytestmark = pytest.mark.gpu

DEVICE = "cuda"
PAGE, WIDTH, PAGES, SLOTS = 4, 6, 40, 9


def made(batch: int, device: str, *, tested: bool) -> tuple[PassEnd, MovingRows, torch.Tensor]:
    """The same of each batch and device: rows of several lengths, some of them padding."""
    generator = torch.Generator().manual_seed(batch)
    flags = torch.rand(batch, COLUMNS, generator=generator) < 0.5
    lengths = torch.randint(1, PAGE * WIDTH - 3, (batch,), generator=generator)
    table = torch.randint(0, PAGES, (batch, WIDTH), generator=generator)
    alive = torch.rand(batch, generator=generator) < 0.8
    end = PassEnd(
        flags=flags.to(device),
        log=torch.zeros((3, batch, COLUMNS), dtype=torch.bool, device=device),
        at=torch.zeros(1, dtype=torch.int64, device=device),
        slots=torch.arange(batch, device=device) % SLOTS,
        allowed=torch.ones(batch, dtype=torch.bool, device=device),
        padding_slot=SLOTS,
        tested=tested,
    )
    rows = MovingRows(
        slots=torch.arange(batch, device=device) % SLOTS,
        positions=(lengths - 1).to(device),
        write_rows=torch.zeros(batch, dtype=torch.int64, device=device),
        kv_lengths=lengths.to(torch.int32).to(device),
        last_page_lengths=torch.zeros(batch, dtype=torch.int32, device=device),
        write_offsets=(lengths - 1).to(torch.int32).to(device),
        pages=table.to(torch.int32).to(device),
        page_size=PAGE,
        dummy_page=PAGES,
        padding_slot=SLOTS,
    )
    return end, rows, alive.to(device)


@pytest.mark.parametrize("batch", [1, 5, 16, 33])
@pytest.mark.parametrize("tested", [True, False])
def test_it_leaves_what_single_operations_leave(batch: int, tested: bool) -> None:
    from mstarc_runtime.kernels.end_pass import end_pass

    end, rows, alive = made(batch, "cpu", tested=tested)
    by_kernel = made(batch, DEVICE, tested=tested)
    rows.go_on(alive, 0)
    end_pass(None, by_kernel[1], by_kernel[2], 0)
    for number in range(3):
        for each in (end, by_kernel[0]):
            each.flags.copy_(torch.roll(each.flags.cpu(), number, 0))
        end.note(alive)
        rows.go_on(alive, 1)
        end_pass(by_kernel[0], by_kernel[1], by_kernel[2], 1)
        assert torch.equal(by_kernel[2].cpu(), alive)
        for given, found in ((end, by_kernel[0]), (rows, by_kernel[1])):
            for field in fields(given):
                value = getattr(given, field.name)
                if isinstance(value, torch.Tensor):
                    assert torch.equal(getattr(found, field.name).cpu(), value), field.name
    assert end.log.any()


def test_a_loop_without_rows_of_a_cache_is_noted_alone() -> None:
    from mstarc_runtime.kernels.end_pass import end_pass

    end, _, alive = made(5, "cpu", tested=True)
    by_kernel, _, lives = made(5, DEVICE, tested=True)
    end.note(alive)
    end_pass(by_kernel, None, lives, 1)
    assert torch.equal(by_kernel.log.cpu(), end.log)
    assert torch.equal(by_kernel.slots.cpu(), end.slots)
