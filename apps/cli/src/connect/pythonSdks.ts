import type { Recipe, Service } from './recipe.ts';
import { anthropicEnv, CHAT, CLAUDE, GPT, geminiRoutes, MESSAGES, openaiEnv, RESPONSES } from './vendors.ts';

export const geminiEnv = ({ url, key }: Service) => ({ GOOGLE_GEMINI_BASE_URL: url, GEMINI_API_KEY: key });

export const GEMINI = 'gemini-3.8-flash';

/** The vendors' own SDKs of PyPI. */
export const PYTHON_SDKS: readonly Recipe[] = [
  {
    name: 'openai-python',
    title: 'OpenAI SDK for Python',
    install: 'pip install openai',
    settings: (service) => ({
      env: openaiEnv(service),
      code: 'from openai import OpenAI\n\nclient = OpenAI()',
    }),
    next: `client.responses.create(model="${GPT}", input="Hello")`,
    model: GPT,
    routes: ['GET /v1/models', CHAT, RESPONSES],
  },
  {
    name: 'anthropic-python',
    title: 'Anthropic SDK for Python',
    install: 'pip install anthropic',
    settings: (service) => ({
      env: anthropicEnv(service),
      code: 'from anthropic import Anthropic\n\nclient = Anthropic()',
    }),
    next: `client.messages.create(model="${CLAUDE}", max_tokens=1024, messages=[{"role": "user", "content": "Hello"}])`,
    model: CLAUDE,
    routes: ['GET /v1/models', MESSAGES, 'POST /v1/messages/count_tokens'],
  },
  {
    name: 'google-genai-python',
    title: 'Google Gen AI SDK for Python',
    install: 'pip install google-genai',
    settings: (service) => ({
      env: geminiEnv(service),
      code: 'from google import genai\n\nclient = genai.Client()',
    }),
    next: `client.models.generate_content(model="${GEMINI}", contents="Hello")`,
    model: GEMINI,
    routes: [
      `POST /v1/models/${GEMINI}:countTokens`,
      ...geminiRoutes('v1', GEMINI),
      'POST /v1/models/gemini-embedding-001:batchEmbedContents',
    ],
    note: 'Versions before 3 ask for the same below /v1beta.',
  },
  {
    name: 'mistral-python',
    title: 'Mistral SDK for Python',
    install: 'pip install mistralai',
    settings: ({ url, key }) => ({
      env: { MISTRAL_API_KEY: key },
      code: `import os\n\nfrom mistralai.client import Mistral\n\nclient = Mistral(server_url="${url}", api_key=os.environ["MISTRAL_API_KEY"])`,
    }),
    next: 'client.chat.complete(model="mistral-small-latest", messages=[{"role": "user", "content": "Hello"}])',
    model: 'mistral-small-latest',
    routes: ['GET /v1/models', CHAT],
  },
  {
    name: 'groq-python',
    title: 'Groq SDK for Python',
    install: 'pip install groq',
    settings: ({ url, key }) => ({
      env: { GROQ_BASE_URL: url, GROQ_API_KEY: key },
      code: 'from groq import Groq\n\nclient = Groq()',
    }),
    next: 'client.chat.completions.create(model="llama-3.3-70b-versatile", messages=[{"role": "user", "content": "Hello"}])',
    model: 'llama-3.3-70b-versatile',
    routes: ['POST /openai/v1/chat/completions'],
    note: 'It adds /openai/v1 to the address itself.',
  },
];
