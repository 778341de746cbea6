"""Whose profile is measured against: the card that is here, and no other without being told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rooflinecli.errors import InputError
from rooflinecli.hardware.matching import normal
from rooflinecli.measurement.card import resolve
from tests.measurement.fake import H200

A100 = replace(H200, name="NVIDIA A100-SXM4-80GB", capability=(8, 0), memory=85_097_971_712, sm_count=108, l2=40 << 20)


def test_auto_is_the_card_that_is_here() -> None:
    found = resolve("auto", H200)
    assert found is not None
    assert found.id.startswith("h200")
    assert found.compute_capability == "9.0"


def test_a_card_without_a_profile_has_none() -> None:
    assert resolve("auto", replace(H200, name="NVIDIA Oddity 9000")) is None


def test_another_cards_profile_is_refused_with_both_names() -> None:
    with pytest.raises(InputError) as caught:
        resolve("a100", H200)
    assert "--gpu a100" in caught.value.message
    assert "A100" in caught.value.message
    assert "NVIDIA H200" in caught.value.message
    assert "--gpu auto" in str(caught.value.hint)
    assert "--allow-mismatch" in str(caught.value.hint)


def test_unless_it_is_allowed() -> None:
    found = resolve("a100", H200, allow_mismatch=True)
    assert found is not None
    assert found.id.startswith("a100")


def test_a_familys_alias_is_the_member_that_is_here() -> None:
    # GIVEN an alias that stands for the 40 GB card when nothing is there to look at
    found = resolve("a100", A100)
    # WHEN the 80 GB card is in the machine THEN it means that one
    assert found is not None
    assert found.id == "a100-sxm4-80gb"


def test_part_of_a_name_is_not_the_name() -> None:
    with pytest.raises(InputError):
        resolve("h200", replace(H200, name="NVIDIA GH200 480GB"))


def test_an_unknown_profile_is_named() -> None:
    with pytest.raises(InputError) as caught:
        resolve("h2000", H200)
    assert caught.value.message.startswith("--gpu h2000: ")


def test_names_without_vendors() -> None:
    assert normal("NVIDIA GeForce RTX 4090") == normal("RTX 4090") == "rtx 4090"
    assert normal("Tesla T4") == normal("NVIDIA T4") == "t4"
    assert normal("NVIDIA GH200 480GB") != normal("NVIDIA H200")
