"""What schemathesis needs to know of the service: its credential, and the rules that no schema can say."""

import json
import os
import urllib.error
import urllib.request

import schemathesis
from schemathesis.core.failures import Failure
from schemathesis.specs.openapi.checks import positive_data_acceptance

URL = os.environ["WEIGHBRIDGE_URL"]
SCOPES = os.environ.get("WEIGHBRIDGE_SCOPES", "").split()
PRINCIPAL = os.environ.get("WEIGHBRIDGE_PRINCIPAL", "")
OPERATOR_TOKEN = os.environ.get("WEIGHBRIDGE_OPERATOR_TOKEN", "")

# 400 for values that a schema allows: which pages exist, what a model can do, and two fields that must agree.
RULES = {"invalid_page_token", "route_not_supported", "model_mismatch"}
# The order of two times, which time zones there are, days of FOCUS, and what excludes pages or a comparison.
RULES_OF_QUERIES = {
    ("/api/v1/spend", "from"),
    ("/api/v1/spend", "timezone"),
    ("/api/v1/spend", "limit"),
    ("/api/v1/spend", "compare"),
    ("/api/v1/spend/focus", "from"),
    ("/api/v1/spend/focus", "to"),
    ("/api/v1/requests", "from"),
}
# 400 for these, whatever the operation: a list of ETags, the one value `*`, one of two ends, and text in the calls of a plan.
RULES_OF_PARAMETERS = ("if-match", "if-none-match", "ends_at", "calls.")


def send(method, path, credential, body=None):
    request = urllib.request.Request(
        URL + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"authorization": f"Bearer {credential}", "content-type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


class Key:
    """A key that its user may revoke, disable or rotate: then the operator's token issues another."""

    def __init__(self):
        self.id = self.secret = None
        self.issued = 0

    def current(self):
        # Changes nothing, and succeeds only with the current secret of a usable key.
        if self.secret is None or send("PATCH", f"/api/v1/keys/{self.id}", self.secret, {})[0] != 200:
            body = {"name": "schemathesis", "principal_id": PRINCIPAL, "scopes": SCOPES}
            status, key = send("POST", "/api/v1/keys", OPERATOR_TOKEN, body)
            if status != 201:
                raise RuntimeError(f"no key for schemathesis: {status} {key}")
            self.id, self.secret = key["id"], key["key"]
            self.issued += 1
        return self.secret


if SCOPES:
    KEY = Key()

    @schemathesis.auth(refresh_interval=None)
    class Caller:
        def get(self, case, context):
            return KEY.current()

        def set(self, case, data, context):
            case.headers["Authorization"] = f"Bearer {data}"


@schemathesis.check
def valid_data_is_accepted(context, response, case):
    """The check of the same purpose, except where the answer names a rule that no schema can say."""
    try:
        return positive_data_acceptance(context, response, case)
    except Failure:
        if breaks_a_rule(response, case):
            return None
        raise


def breaks_a_rule(response, case):
    if response.status_code == 412:
        # "The resource is not what If-Match names", or exists although If-None-Match says that it must not.
        return "if-match" in case.headers or "if-none-match" in case.headers
    if response.status_code not in (400, 422):
        return False
    try:
        body = response.json()
        error = dict(body["error"])
    except (ValueError, KeyError, TypeError):
        return False
    own = [one.get("metadata", {}) for one in error.get("details", []) if one.get("domain") == "weighbridge"]
    if not case.path.startswith("/api/") and not own and "request_id" not in {**body, **error}:
        # The vendor's own error: what it requires besides the model is not in the document.
        return True
    if response.status_code == 422:
        # "The request is well-formed but breaks a rule": it names a policy that does not exist, and the like.
        return error.get("type") == "validation_error"
    codes = {error.get("code"), *(one.get("code") for one in own)}
    parameter = error.get("param") or ""
    return (
        not RULES.isdisjoint(codes)
        or (case.path, parameter) in RULES_OF_QUERIES
        or parameter.startswith(RULES_OF_PARAMETERS)
    )
