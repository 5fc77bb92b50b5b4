"""What a user of the generated client writes: lists models, creates a key, reads usage."""

import json
import os

from weighbridge_client.api.keys import create_key
from weighbridge_client.api.models import list_models
from weighbridge_client.api.usage import get_usage
from weighbridge_client.client import AuthenticatedClient
from weighbridge_client.models import NewKey, NewKeyScope

client = AuthenticatedClient(base_url=os.environ["WEIGHBRIDGE_URL"], token=os.environ["WEIGHBRIDGE_KEY"])
models = list_models.sync(client=client, page_size=10)
key = create_key.sync(client=client, body=NewKey(name="made by Python", scopes=[NewKeyScope.USAGEREAD]))
usage = get_usage.sync(client=client)
print(json.dumps({"models": [one.model for one in models.data], "name": key.name, "spent": usage.bucket_spent_micro_usd}))
