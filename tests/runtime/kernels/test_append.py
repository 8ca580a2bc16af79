"""The kernel that appends items to streams leaves what a ring's single operations leave."""

import pytest
import torch

pytestmark = pytest.mark.gpu

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
CAPACITY, SLOTS = 5, 6


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.bool, torch.int64])
@pytest.mark.parametrize(("count", "item"), [(1, ()), (3, (4,)), (2, (2, 3)), (1, (2500,))])
@pytest.mark.parametrize("is_asked", [False, True])
def test_it_leaves_what_single_operations_leave(
    dtype: torch.dtype, count: int, item: tuple[int, ...], is_asked: bool
) -> None:
    from mstarc_runtime.kernels.append import append

    generator = torch.Generator(DEVICE).manual_seed(count)
    slots = torch.tensor([4, 0, 2], device=DEVICE)
    flags = torch.tensor([[True, False], [False, True], [True, True]], device=DEVICE)
    where = flags[:, 0] if is_asked else None
    storage = torch.zeros((SLOTS, CAPACITY, *item), dtype=dtype, device=DEVICE)
    heads = torch.tensor([3, 0, 4, 0, 11, 0], device=DEVICE)
    wanted, wanted_heads = storage.clone(), heads.clone()
    for _ in range(3):
        drawn = torch.randint(0, 2, (3, count, *item), generator=generator, device=DEVICE)
        items = drawn.to(dtype)
        append(items, slots=slots, heads=heads, storage=storage, where=where)
        own = wanted_heads[slots]
        at = (own[:, None] + torch.arange(count, device=DEVICE)) % CAPACITY
        wanted[slots[:, None], at] = items
        wanted_heads[slots] = own + count * (1 if where is None else where.long())
        assert torch.equal(storage, wanted)
        assert torch.equal(heads, wanted_heads)


def test_one_constant_of_all_rows_is_no_copy_of_it() -> None:
    from mstarc_runtime.kernels.append import append

    constant = torch.tensor([7, -1, 3], device=DEVICE)
    storage = torch.zeros((SLOTS, CAPACITY, 3), dtype=torch.int64, device=DEVICE)
    heads = torch.zeros(SLOTS, dtype=torch.int64, device=DEVICE)
    slots = torch.tensor([1, 5], device=DEVICE)
    items = constant.expand(2, 3).unsqueeze(1)
    append(items, slots=slots, heads=heads, storage=storage, where=None)
    assert torch.equal(storage[slots, 0], constant.expand(2, 3))
    assert heads.tolist() == [0, 1, 0, 0, 0, 1]


def variants(kernel: object) -> int:
    """In how many forms a kernel was compiled in this process."""
    caches = kernel.device_caches  # type: ignore[attr-defined]
    return sum(len(forms[0]) for forms in caches.values())


def test_other_counts_of_items_compile_nothing() -> None:
    """A prompt's length is another in each request."""
    from mstarc_runtime.kernels.append import MOST_ITEMS, append, append_items
    from mstarc_runtime.kernels.posting import Post, post_items

    if DEVICE.type != "cuda":
        pytest.skip("no compiler runs here")
    storage = torch.zeros((SLOTS, 64, 4), dtype=torch.int64, device=DEVICE)
    heads = torch.zeros(SLOTS, dtype=torch.int64, device=DEVICE)
    slots = torch.tensor([1], device=DEVICE)
    post = Post(capacity=64, size=4, slots=SLOTS - 1, device=DEVICE)
    post.turn_to(storage.data_ptr())
    before = variants(append_items), variants(post_items)
    for count in range(1, MOST_ITEMS + 1):
        items = torch.full((1, count, 4), count, device=DEVICE)
        append(items, slots=slots, heads=heads, storage=storage, where=None)
        post(slots, torch.arange(count, device=DEVICE)[None], items)
        assert storage[1, :count].eq(count).all()
    # One item, a multiple of 16, any other number; and a row's numbers a multiple of 16 or not.
    assert variants(append_items) - before[0] <= 4
    assert variants(post_items) - before[1] <= 3
