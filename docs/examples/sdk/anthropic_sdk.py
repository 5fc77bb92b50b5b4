# pip install anthropic; ANTHROPIC_BASE_URL is http://127.0.0.1:8080, ANTHROPIC_API_KEY a key of Weighbridge.
import os
from anthropic import Anthropic

message = Anthropic().messages.create(
    model=os.environ.get("MODEL", "mock/echo"),
    max_tokens=100,
    messages=[{"role": "user", "content": "Hello from the Anthropic SDK"}],
)
print(message.content[0].text)
