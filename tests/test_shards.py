"""Shards: what they are called, and that together they have everything once."""

import pytest

from pliant.shards import Shard


@pytest.mark.parametrize("count", [1, 2, 3, 7, 16])
@pytest.mark.parametrize("parts", [0, 1, 5, 16, 33])
def test_together_they_have_every_part_once_and_evenly(count, parts):
    own = [Shard(number, count).of(range(parts)) for number in range(1, count + 1)]
    assert sorted(part for some in own for part in some) == list(range(parts))
    assert max(map(len, own)) - min(map(len, own)) <= 1
    assert all(part % count == number for number, some in enumerate(own) for part in some)


def test_it_is_read_as_it_is_written():
    assert Shard.parse("3/16") == Shard.parse(" 3 / 16 ") == Shard(3, 16)
    assert Shard.parse(str(Shard(16, 16))) == Shard(16, 16)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0/16", "shard=0/16: shards are counted from 1. The first of 16 is 1/16."),
        ("-1/16", "shard=-1/16: shards are counted from 1."),
        ("17/16", "shard=17/16: there is no shard 17 of 16. The last one is 16/16."),
        ("3/0", "shard=3/0: there must be at least one shard: 1/3 is the first of 3."),
        (
            "3-16",
            "shard=3-16: give the number of the shard and the number of shards, such as 3/16",
        ),
        ("3", "give the number of the shard and the number of shards"),
        ("a/b", "give the number of the shard and the number of shards"),
        ("1.5/3", "give the number of the shard and the number of shards"),
        ("", "give the number of the shard and the number of shards"),
    ],
)
def test_what_is_wrong_is_a_sentence(text, said):
    with pytest.raises(ValueError, match="^shard=") as refused:
        Shard.parse(text)
    assert said in str(refused.value)
