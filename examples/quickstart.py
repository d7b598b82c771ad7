"""A hospital and a laboratory know different things about the same people; only the hospital has the labels."""

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from fedonce import FedOnceClassifier

people, benign = load_breast_cancer(return_X_y=True, as_frame=True)  # a pandas DataFrame of 30 columns, and labels
train, test, y_train, y_test = train_test_split(people, benign, random_state=0, stratify=benign)
columns = {"hospital": people.columns[:4], "lab": people.columns[4:]}  # who holds which

model = FedOnceClassifier(columns, host="hospital", random_state=0).fit(train, y_train)

print(f"new people, with one message from the lab: {model.score(test, y_test):.3f}")
print(f"sent: {model.traffic_.messages} message, {model.traffic_.bytes} bytes")
print(model.validation_)  # was it worth it? by rows held back from the training
