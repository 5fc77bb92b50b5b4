# pip install openai; OPENAI_BASE_URL is http://127.0.0.1:8080/v1, OPENAI_API_KEY a key of Weighbridge.
import os
from openai import OpenAI

response = OpenAI().chat.completions.create(
    model=os.environ.get("MODEL", "mock/echo"),
    messages=[{"role": "user", "content": "Hello from the OpenAI SDK"}],
)
print(response.choices[0].message.content)
