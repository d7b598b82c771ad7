"""Several host models, their answers averaged with weights that rows held back speak for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fedonce.errors import InputError, parameter_error
from fedonce.hostmodels.base import Examples, Held, HostModel, Inputs, Split, Tensors
from fedonce.hostmodels.holding import average, chances, splits
from fedonce.hostmodels.names import HOST_MODELS, Facts
from fedonce.training.loop import Rows
from fedonce.training.settings import Epoch
from fedonce.training.stored import check_lengths, restored_settings

PICKS = 20  # a weight is a number of these
LEAST_CHANCE = 1e-7  # what a class that a model holds impossible still has: one row must not decide all
MOST_MEMBERS = 8
ALONE = ", own columns alone"  # of a model that was trained without guests, after its name


@dataclass(eq=False)
class BlendModel(HostModel):
    """The weighted mean of several models' probabilities, or numbers.

    The weights are chosen on rows held back from the training, out of fold where rows are few: models are added one by one,
    with replacement, as long as the loss on those rows falls (Caruana et al., 2004). A model of weight 0 is left out. Where
    guests' values were blurred before they left, each model is also trained without guests: noise may cost more than it tells.

    Parameters
    ----------
    models : tuple of str
        Names of host models.
    """

    name: ClassVar[str] = "blend"
    facts: ClassVar[Facts] = Facts()
    models: tuple[str, ...] = ("trees", "tabm")
    members_: tuple[HostModel, ...] = field(default=(), init=False, repr=False)
    weights_: tuple[float, ...] = field(default=(), init=False, repr=False)
    losses_: dict[str, float] = field(default_factory=dict, init=False, repr=False)  # on the rows held back
    held_: Held | None = field(default=None, init=False, repr=False)
    alone_: tuple[bool, ...] = field(default=(), init=False, repr=False)  # which models were trained without guests

    def check(self, owner: str) -> None:
        """Raise where a model has no such name, or is a blend itself."""
        unknown = [each for each in self.models if each not in HOST_MODELS or issubclass(HOST_MODELS[each], BlendModel)]
        if unknown or not 0 < len(self.models) <= MOST_MEMBERS:
            wanted = f"at most {MOST_MEMBERS} names of host models that are no blends"
            raise parameter_error(owner, "models", wanted, unknown[0] if unknown else self.models)
        for each in self.models:
            HOST_MODELS[each]().check(owner)

    def must(self, fact: str, lacks: str) -> None:
        """Raise where a fact is not so of the blend, or of a model in it that has to learn the same."""
        super().must(fact, lacks)
        for each in self.models if fact in ("classes", "numbers", "absent") else ():
            HOST_MODELS[each]().must(fact, lacks)

    @property
    def held(self) -> Held | None:
        """The blend's outputs for the rows that were held back."""
        return self.held_

    @property
    def fresh(self) -> HostModel:
        """The kind of model that has the greatest weight; before the training, a copy of this."""
        if not self.members_:
            return super().fresh
        best = max(range(len(self.members_)), key=lambda i: self.weights_[i])
        return self.members_[best].fresh

    @property
    def chosen(self) -> str:
        """The models with their weights, and the losses on the rows held back."""
        names = [f"{each.name}{ALONE if alone else ''}" for each, alone in zip(self.members_, self.alone_, strict=True)]
        kept = zip(names, self.weights_, strict=True)
        parts = " + ".join(name if weight == 1 else f"{weight:.2f} {name}" for name, weight in kept)
        losses = ", ".join(f"{name} {loss:.4g}" for name, loss in self.losses_.items())
        return f"{parts} (loss on rows held back: {losses})"

    def candidates(
        self, examples: Examples, n_outputs: int, device: torch.device, tried: Mapping[str, HostModel]
    ) -> Iterator[str]:
        """Give the models to weigh, one after the other; `tried` are those that were trained."""
        yield from self.models

    def fit(
        self, examples: Examples, dims: Sequence[int], n_outputs: int, rng: np.random.Generator, device: torch.device
    ) -> list[Epoch]:
        """Train each model without the rows held back, weigh them on these, and train those with a weight on all rows."""
        parts = splits(examples.target, rng)
        tried: dict[str, HostModel] = {}
        answers: dict[str, NDArray[np.float64]] = {}
        seeds: dict[str, int] = {}
        given: dict[str, tuple[Examples, Sequence[int]]] = {}
        for model in self.candidates(examples, n_outputs, device, tried):
            ways = {model: (examples, dims)}
            if any(examples.noisy):
                ways[f"{model}{ALONE}"] = (examples.alone, ())
            for name, (rows, values) in ways.items():
                outputs, seeds[name] = [], int(rng.integers(2**63))
                for part in parts:
                    tried[name] = self._try(model, rows, part, values, n_outputs, seeds[name], device)
                    rest = rows.take(part.held)
                    outputs.append(tried[name].outputs(rest.own, rest.values, rest.present, device))
                answers[name] = as_answers(np.concatenate(outputs), n_outputs)
            given |= ways
        goal = examples.take(np.concatenate([part.held for part in parts]))
        weights = choose_weights(answers, goal)
        self.losses_ = {name: mean_loss(each, goal) for name, each in answers.items()}
        blended = sum(weights[name] * answers[name] for name in tried)
        self.losses_["blend"] = mean_loss(blended, goal)
        self.held_ = Held(parts, as_outputs(blended))
        kept = [name for name in tried if weights[name]]
        history: list[Epoch] = []
        for name in kept:
            history = tried[name].fit_all(*given[name], n_outputs, np.random.default_rng(seeds[name]), device)
        self.members_, self.weights_ = tuple(tried[name] for name in kept), tuple(weights[name] for name in kept)
        self.alone_ = tuple(name.endswith(ALONE) for name in kept)
        return history

    def _try(
        self,
        name: str,
        examples: Examples,
        part: Split,
        dims: Sequence[int],
        n_outputs: int,
        seed: int,
        device: torch.device,
    ) -> HostModel:
        model: HostModel = HOST_MODELS[name]()
        learn, held = examples.take(part.learn).counted, examples.take(part.held).counted
        model.fit_watched(learn, held, dims, n_outputs, np.random.default_rng(seed), device)
        return model

    def outputs(self, own: Rows, values: Rows, present: Rows, device: torch.device) -> Rows:
        """Return the weighted mean of what the models answer."""
        if not self.members_:
            raise InputError(f"This {type(self).__name__} has not been trained yet; call fit first.")
        answers = [
            each.outputs(own, values[:, :0], present[:, :0], device)
            if alone
            else each.outputs(own, values, present, device)
            for each, alone in zip(self.members_, self.alone_, strict=True)
        ]
        if len(answers) == 1:
            return answers[0]
        weighted = zip(self.weights_, answers, strict=True)
        return as_outputs(sum(weight * as_answers(each, each.shape[1]) for weight, each in weighted))

    def module(self) -> nn.Module:
        """Return the network of its one model, where no more than one has a weight."""
        one = len(self.members_) == 1 and not self.alone_[0]
        return self.members_[0].module() if one else super().module()

    def state(self) -> Tensors:
        """Return what each model learnt."""
        return {f"{i}.{key}": value for i, each in enumerate(self.members_) for key, value in each.state().items()}

    def restore(self, tensors: Tensors, inputs: Inputs) -> None:
        """Give each model what it learnt."""
        for i, (each, alone) in enumerate(zip(self.members_, self.alone_, strict=True)):
            own = {key.removeprefix(f"{i}."): value for key, value in tensors.items() if key.startswith(f"{i}.")}
            each.restore(own, replace(inputs, dims=()) if alone else inputs)

    def to_json(self, owner: str) -> dict[str, Any]:
        """Return the settings, the models' own, their weights and their losses on the rows held back."""
        members = [
            {"name": each.name, "content": each.to_json(owner), **({"alone": True} if alone else {})}
            for each, alone in zip(self.members_, self.alone_, strict=True)
        ]
        learnt = {"members": members, "weights": list(self.weights_), "losses": self.losses_}
        return super().to_json(owner) | learnt

    @classmethod
    def from_json(cls, content: Mapping[str, Any], n_arrays: int) -> Self:
        """Return a blend of untrained models with the settings of a file, which may be forged."""
        check_lengths(content["settings"], n_arrays)
        made = cls(**restored_settings(content["settings"]))
        made.check(cls.__name__)
        members, weights = list(content["members"]), [float(each) for each in content["weights"]]
        fits = 0 < len(members) == len(weights) <= 2 * MOST_MEMBERS and all(0 < each <= 1 for each in weights)
        if not fits or abs(sum(weights) - 1) > 1e-6:
            raise ValueError("its models and their weights do not belong together")
        made.members_ = tuple(_member(each, n_arrays) for each in members)
        made.weights_, made.alone_ = tuple(weights), tuple(each.get("alone") is True for each in members)
        made.losses_ = {str(name): float(loss) for name, loss in content["losses"].items()}
        return made


def _member(content: Mapping[str, Any], n_arrays: int) -> HostModel:
    kind = HOST_MODELS[str(content["name"])]
    if issubclass(kind, BlendModel):  # a file could nest them without end
        raise ValueError("it is a blend of blends")
    made: HostModel = kind.from_json(content["content"], n_arrays)
    return made


def as_answers(outputs: Rows, n_outputs: int) -> NDArray[np.float64]:
    """Return probabilities from logits; numbers as they are."""
    return outputs.astype(np.float64) if n_outputs == 1 else np.maximum(chances(outputs), LEAST_CHANCE)


def as_outputs(answers: Any) -> Rows:
    """Return logits from probabilities; numbers as they are."""
    found = np.asarray(answers)
    return (found if found.shape[1] == 1 else np.log(found)).astype(np.float32)


def losses(answers: NDArray[np.float64], goal: Examples) -> NDArray[np.float64]:
    """Return the loss of each row: minus the logarithm of the right class's probability, or the squared error."""
    if answers.shape[1] == 1:
        return np.asarray(np.square(answers[:, 0] - goal.target))
    return np.asarray(-np.log(answers[np.arange(len(answers)), goal.target] / answers.sum(axis=1)))


def mean_loss(answers: Any, goal: Examples) -> float:
    """Return the mean loss of rows, by their weights."""
    return average(losses(np.asarray(answers), goal), goal.weight)


def choose_weights(answers: Mapping[str, NDArray[np.float64]], goal: Examples) -> dict[str, float]:
    """Return a weight for each model: pick the one that lowers the loss of the mean most, again and again."""
    picked = dict.fromkeys(answers, 0)
    total = np.zeros_like(next(iter(answers.values())))
    best = np.inf
    for count in range(1, PICKS + 1):
        trials = {name: mean_loss((total + each) / count, goal) for name, each in answers.items()}
        name = min(trials, key=lambda each: trials[each] if np.isfinite(trials[each]) else np.inf)
        if not np.isfinite(trials[name]):
            raise InputError(
                "None of the host models gives finite numbers for rows held back; look at the labels' scale."
            )
        if count > 1 and trials[name] > best:
            break
        best, total = trials[name], total + answers[name]
        picked[name] += 1
    whole = sum(picked.values())
    return {name: count / whole for name, count in picked.items()}
