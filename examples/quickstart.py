"""A bank and a shop know different things about the same people; only the bank has the labels."""

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from fedonce import FedOnceClassifier

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
bank, shop = range(4), range(4, 30)  # who holds which columns

solo = FedOnceClassifier(parties={"bank": bank}, random_state=0).fit(X_train, y_train)
fed = FedOnceClassifier(parties={"bank": bank, "shop": shop}, host="bank", random_state=0).fit(X_train, y_train)

print(f"the bank alone: {solo.score(X_test, y_test):.3f}")
print(f"with one message from the shop: {fed.score(X_test, y_test):.3f}")
print(f"sent: {fed.traffic_.messages} message, {fed.traffic_.bytes} bytes")
print(fed.validation_)  # was it worth it? by rows held back from the training
