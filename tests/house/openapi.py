"""The contract and the router say the same. Each operation of api/openapi.yaml is one line of the table in
src/doors/rest/routes.cc, and each line is an operation: method, path, scope, operationId and the names of the query
parameters. Every operation has a summary, a scope, a good answer and errors of the one shape. Those that take an
Idempotency-Key are those of src/doors/rest/replies.cc.
"""

import re

import tree
import yaml

CONTRACT = "api/openapi.yaml"
TABLE = "src/doors/rest/routes.cc"
KEYS = "src/doors/rest/replies.cc"
METHODS = ("get", "head", "post", "put", "patch", "delete", "options")
SCOPES = {"none", "read", "use", "create", "admin"}
LINE = re.compile(r'^\s*\{(\w+),\s*Need::(\w+),\s*"([^"]*)",\s*"([^"]*)",\s*"([^"]*)",\s*\w+\},', re.MULTILINE)


def table_routes(text):
    """(method, path) → (scope, operation, query names) as the table says."""
    routes = {}
    for method, need, pattern, operation, query in LINE.findall(text):
        path = pattern.replace("...}", "}")
        routes[method.lower(), path] = (need.lower(), operation, set(query.split()))
    return routes


def resolve(document, value):
    while isinstance(value, dict) and "$ref" in value:
        target = document
        for part in value["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        value = target
    return value


def contract_routes(document):
    """The same from the contract, and what it lacks."""
    routes, complaints = {}, []
    for path, item in document.get("paths", {}).items():
        for method in METHODS:
            if method not in item:
                continue
            operation = item[method]
            where = f"{CONTRACT}: {method.upper()} {path}"
            parameters = [resolve(document, value) for value in operation.get("parameters", [])]
            scope = operation.get("x-caisson-scope")
            routes[method, path] = (scope, operation.get("operationId"),
                                    {value["name"] for value in parameters if value["in"] == "query"})
            complaints += faults(document, where, path, operation, parameters, scope)
    return routes, complaints


def key_complaints(root, document):
    """Operations that only one of the two lets have a key."""
    if not (root / KEYS).exists():
        return []
    found = re.search(r"kOperations = \{(.*?)\}", (root / KEYS).read_text(encoding="utf-8"), re.DOTALL)
    ours = set(re.findall(r'"(\w+)"', found[1])) if found else set()
    theirs = {item[method]["operationId"] for item in document.get("paths", {}).values() for method in METHODS
              if method in item and any(resolve(document, value).get("name") == "Idempotency-Key"
                                        for value in item[method].get("parameters", []))}
    return [f"{name}: only one of {CONTRACT} and {KEYS} has an Idempotency-Key" for name in sorted(ours ^ theirs)]


def faults(document, where, path, operation, parameters, scope):
    if scope not in SCOPES:
        yield f"{where} declares no x-caisson-scope"
    if (operation.get("security") == []) != (scope == "none"):
        yield f"{where}: security and x-caisson-scope do not agree"
    if not operation.get("summary"):
        yield f"{where} has no summary"
    in_path = {value["name"] for value in parameters if value["in"] == "path"}
    if in_path != set(re.findall(r"\{(\w+)\}", path)):
        yield f"{where}: the parameters of the path are {sorted(in_path)}"
    responses = operation.get("responses", {})
    if scope != "none" and not {"400", "401", "403"} <= set(responses):
        yield f"{where} does not declare 400, 401 and 403"
    for status, response in responses.items():
        content = resolve(document, response).get("content", {})
        if status.isdigit() and int(status) >= 400 and "application/json" not in content:
            yield f"{where}: the error {status} is not JSON"


def check(root):
    contract, table = root / CONTRACT, root / TABLE
    if not contract.exists() or not table.exists():
        return [f"{CONTRACT} or {TABLE} is missing"]
    routes = table_routes(table.read_text(encoding="utf-8"))
    document = yaml.safe_load(contract.read_text(encoding="utf-8"))
    declared, complaints = contract_routes(document)
    complaints += key_complaints(root, document)
    if not routes:
        complaints.append(f"{TABLE}: no line of the table was understood")
    for key in sorted(routes.keys() | declared.keys()):
        method, path = key[0].upper(), key[1]
        if key not in declared:
            complaints.append(f"{TABLE}: {method} {path} is not in {CONTRACT}")
        elif key not in routes:
            complaints.append(f"{CONTRACT}: {method} {path} is not in {TABLE}")
        else:
            names = ("scope", "operationId", "query parameters")
            for name, ours, theirs in zip(names, routes[key], declared[key]):
                free = name == "query parameters" and ours == {"*"}
                if ours != theirs and not free:
                    complaints.append(f"{method} {path}: the {name} is {ours} in the table and {theirs} in the contract")
    return complaints


if __name__ == "__main__":
    tree.main(check)
