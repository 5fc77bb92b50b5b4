"""Runs LangChain's standard tests on one of its chat models for each model that it is told, and prints each outcome."""

import json
import os
import struct
import sys
import zlib

import httpx
import pytest
from langchain_tests.integration_tests import ChatModelIntegrationTests

CLIENT = os.environ["TEST_CLIENT"]
# By vendor, the model that is tested, and another that a test asks for instead.
MODELS = json.loads(os.environ["TEST_MODELS"])


def chunk(kind, data):
    body = kind + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))


PIXEL = b"\x89PNG\r\n\x1a\n" + b"".join(
    [
        chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)),
        chunk(b"IDAT", zlib.compress(b"\x00\x80")),
        chunk(b"IEND", b""),
    ]
)
SILENCE = b"RIFF" + struct.pack("<I4s4sIHHIIHH4sI", 36, b"WAVE", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8, b"data", 0)
FILES = {"png": PIXEL, "wav": SILENCE, "pdf": b"%PDF-1.4\n%%EOF\n"}


def download(url, **_):
    """The tests load their images and documents from the internet. All of the clients have sessions of their own."""
    return httpx.Response(200, content=FILES[url.rsplit(".")[-1]], request=httpx.Request("GET", url))


httpx.get = download


class Standard(ChatModelIntegrationTests):
    params = {}
    details = ["cache_read_input"]

    @property
    def chat_model_params(self):
        return {"model": self.model_name, "max_retries": 0, "timeout": 60, **self.params}

    supports_image_inputs = True
    supports_image_tool_message = True
    supports_pdf_inputs = True

    @property
    def supported_usage_metadata_details(self):
        return {"invoke": self.details, "stream": self.details}

    def said(self, *, stream=False):
        model = self.chat_model_class(**self.chat_model_params)
        if not stream:
            return model.invoke("Hello")
        pieces = list(model.stream("Hello"))
        return sum(pieces[1:], pieces[0])

    invoke_with_cache_read_input = said
    invoke_with_cache_creation_input = said


def chat_completions():
    from langchain_openai import ChatOpenAI

    return {
        "chat_model_class": ChatOpenAI,
        "params": {"use_responses_api": False, "stream_usage": True},
        "supports_image_urls": True,
        "supports_image_tool_message": False,
        "supports_audio_inputs": True,
        "supports_json_mode": True,
        "supports_anthropic_inputs": True,
    }


def responses():
    from langchain_openai import ChatOpenAI

    return {
        "chat_model_class": ChatOpenAI,
        "params": {"use_responses_api": True},
        "supports_image_urls": True,
        "supports_pdf_tool_message": True,
        "supports_json_mode": True,
        "supports_anthropic_inputs": True,
    }


def messages():
    from langchain_anthropic import ChatAnthropic

    return {
        "chat_model_class": ChatAnthropic,
        "details": ["cache_read_input", "cache_creation_input"],
        # Its default is a tool that is forced, which the newest Claudes refuse.
        "structured_output_kwargs": {"method": "json_schema"},
        "supports_image_urls": True,
        "supports_pdf_tool_message": True,
        "supports_anthropic_inputs": True,
    }


def generate_content():
    from langchain_google_genai import ChatGoogleGenerativeAI

    return {
        "chat_model_class": ChatGoogleGenerativeAI,
        "supports_json_mode": True,
        "supports_audio_inputs": True,
        # It takes no other model for a call.
        "supports_model_override": False,
    }


for vendor, (model, other_model) in MODELS.items():
    members = {**globals()[CLIENT](), "model_name": model, "model_override_value": other_model}
    globals()[f"Test_{vendor}"] = type(f"Test_{vendor}", (Standard,), members)


class Outcomes:
    """Prints what pytest says of each test; of one that failed, with its error."""

    def pytest_runtest_logreport(self, report):
        if report.when != "call" and report.passed:
            return
        vendor, name = report.nodeid.split("::Test_")[-1].split("::")
        error = report.longrepr.reprcrash.message.splitlines()[0][:300] if report.failed else ""
        print("\nCASE " + json.dumps({"vendor": vendor, "name": name, "outcome": report.outcome, "error": error}))


if __name__ == "__main__":
    options = ["-q", "-s", "--tb=no", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto"]
    # The clients of a model keep their connections from one test to the next.
    options += ["-o", "asyncio_default_test_loop_scope=session"]
    # Tests that failed are no failure of this program.
    sys.exit(0 if pytest.main([*options, __file__], plugins=[Outcomes()]) in (0, 1) else 1)
