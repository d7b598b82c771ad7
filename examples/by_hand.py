"""FedOnce-L0 by hand: the paper's Algorithms 1 and 2 in plain torch, with no import of fedonce.

    python examples/by_hand.py

A test asserts that FedOnceClassifier(learner="nat", recipe="paper", bits=32) gives the same predictions.
"""

import hashlib

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import nn


def generator(seed, party):
    """One generator per party: from the seed and the party's own name."""
    return np.random.default_rng([seed, *np.frombuffer(hashlib.sha256(party.encode()).digest(), dtype="<u4").tolist()])


def fully_connected(n_inputs, hidden, n_outputs):
    layers = []
    for width in hidden:
        layers += [nn.Linear(n_inputs, width), nn.ReLU()]
        n_inputs = width
    return nn.Sequential(*layers, nn.Linear(n_inputs, n_outputs))


def standardise(train, *others):
    mean, deviation = train.mean(axis=0), train.std(axis=0)
    return [
        torch.tensor(np.clip((x - mean) / deviation, -4, 4).astype(np.float32)).to(torch.get_default_dtype())
        for x in (train, *others)
    ]


def learn_without_labels(x, d, seed, party, hidden=(64, 64), epochs=3, batch=128, rate=1e-3, decay=1e-5, history=None):
    """Algorithm 1, lines 3-15: NAT. Returns f_theta."""
    rng = generator(seed, party)
    torch.manual_seed(int(rng.integers(2**63)))
    f = nn.Sequential(*fully_connected(x.shape[1], hidden, d), nn.Tanh())
    C = rng.standard_normal((len(x), d))
    C = torch.tensor(C / np.linalg.norm(C, axis=1, keepdims=True)).to(x.dtype)
    optimizer = torch.optim.Adam(f.parameters(), lr=rate, weight_decay=decay)
    for _ in range(epochs):
        total = 0.0
        for rows in torch.tensor(rng.permutation(len(x))).split(batch):
            outputs = f(x[rows])
            with torch.no_grad():  # line 5: the best permutation of the batch's targets
                cost = torch.cdist(outputs, C[rows]).square()
                P = linear_sum_assignment(cost.numpy())[1]
                C[rows] = C[rows][P]
            loss = (outputs - C[rows]).square().sum(dim=1).mean()  # line 6
            optimizer.zero_grad()
            loss.backward()  # line 7
            optimizer.step()  # line 9
            total += loss.item() * len(rows)
        if history is not None:
            history.append(total / len(x))
    return f.eval()


def represent(f, x):
    """Return what travels: n x d numbers, float32."""
    with torch.no_grad():
        return f(x).float().to(x.dtype)


def learn_with_labels(x, R, y, seed, party, epochs=3, batch=100, rate=1e-4, decay=1e-4):
    """Algorithm 1, lines 18-30: the host's own encoder, all representations, a head. Returns f_w."""
    rng = generator(seed, party)
    torch.manual_seed(int(rng.integers(2**63)))
    own = fully_connected(x.shape[1], (30, 30), 3)
    head = fully_connected(3 + R.shape[1], (30,), int(y.max()) + 1)
    optimizer = torch.optim.Adam([*own.parameters(), *head.parameters()], lr=rate, weight_decay=decay)
    for _ in range(epochs):
        for rows in torch.tensor(rng.permutation(len(x))).split(batch):
            loss = nn.functional.cross_entropy(head(torch.cat([own(x[rows]), R[rows]], dim=1)), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return lambda x, R: head(torch.cat([own(x), R], dim=1)).softmax(dim=1)


def fedonce(train, y, test, host, seed, d=3):
    """Algorithms 1 and 2. `train` and `test` map each party's name to its own columns."""
    prepared = {party: standardise(train[party], test[party]) for party in train}
    R_train, R_test = [], []
    for party, (x_train, x_test) in prepared.items():
        if party != host:
            f = learn_without_labels(x_train, d, seed, party)
            R_train.append(represent(f, x_train))  # line 16: the only message of the training
            R_test.append(represent(f, x_test))  # Algorithm 2, line 4: one message per set of rows
    x_train, x_test = prepared[host]
    f_w = learn_with_labels(x_train, torch.cat(R_train, dim=1), torch.tensor(y), seed, host)
    with torch.no_grad():
        return f_w(x_test, torch.cat(R_test, dim=1)).numpy()


def main():
    from sklearn.datasets import load_wine

    torch.set_default_dtype(torch.float64)
    X, y = load_wine(return_X_y=True)
    columns = {"bank": slice(0, 5), "shop": slice(5, 9), "telco": slice(9, 13)}
    train, test = ({party: part[:, own] for party, own in columns.items()} for part in (X[::2], X[1::2]))
    probabilities = fedonce(train, y[::2], test, host="bank", seed=0)
    print("first predictions after three epochs:")
    print(probabilities[:3].round(4))


if __name__ == "__main__":
    main()
