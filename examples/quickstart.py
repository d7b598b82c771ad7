"""A bank and a shop know different things about the same people; only the bank has the labels."""

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from fedonce import FedOnceClassifier

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
parties = {"bank": list(X.columns[:4]), "shop": list(X.columns[4:])}

solo = FedOnceClassifier(parties={"bank": parties["bank"]}, random_state=0).fit(X_train, y_train)
fed = FedOnceClassifier(parties=parties, host="bank", random_state=0).fit(X_train, y_train)

print(f"the bank alone: {solo.score(X_test, y_test):.3f}")
print(f"with one message from the shop: {fed.score(X_test, y_test):.3f}")
print(f"sent: {fed.traffic_.messages} message, {fed.traffic_.bytes} bytes")
