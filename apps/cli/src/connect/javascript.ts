import type { Recipe } from './recipe.ts';
import { anthropicEnv, CHAT, CLAUDE, GPT, geminiRoutes, MESSAGES, openaiEnv, RESPONSES } from './vendors.ts';

const GEMINI = 'gemini-2.5-pro';

/** SDKs and frameworks of npm. */
export const JAVASCRIPT: readonly Recipe[] = [
  {
    name: 'openai-js',
    title: 'OpenAI SDK for JavaScript',
    install: 'npm install openai',
    settings: (service) => ({
      env: openaiEnv(service),
      code: `import OpenAI from 'openai';\n\nconst client = new OpenAI();`,
    }),
    next: `client.responses.create({ model: '${GPT}', input: 'Hello' })`,
    model: GPT,
    routes: ['GET /v1/models', CHAT, RESPONSES],
  },
  {
    name: 'azure-openai-js',
    title: 'AzureOpenAI of the OpenAI SDK for JavaScript',
    install: 'npm install openai',
    settings: ({ url, key }) => ({
      env: { AZURE_OPENAI_ENDPOINT: url, AZURE_OPENAI_API_KEY: key, OPENAI_API_VERSION: '2024-10-21' },
      code: `import { AzureOpenAI } from 'openai';\n\nconst client = new AzureOpenAI();`,
    }),
    next: `client.chat.completions.create({ model: '${GPT}', messages: [{ role: 'user', content: 'Hello' }] })`,
    model: GPT,
    routes: [`POST /openai/deployments/${GPT}/chat/completions`],
    note: 'The deployment is the name of the model. The key is sent in the header api-key.',
  },
  {
    name: 'anthropic-js',
    title: 'Anthropic SDK for TypeScript',
    install: 'npm install @anthropic-ai/sdk',
    settings: (service) => ({
      env: anthropicEnv(service),
      code: `import Anthropic from '@anthropic-ai/sdk';\n\nconst client = new Anthropic();`,
    }),
    next: `client.messages.create({ model: '${CLAUDE}', max_tokens: 1024, messages: [{ role: 'user', content: 'Hello' }] })`,
    model: CLAUDE,
    routes: ['GET /v1/models', MESSAGES, 'POST /v1/messages/count_tokens'],
  },
  {
    name: 'groq-js',
    title: 'Groq SDK for JavaScript',
    install: 'npm install groq-sdk',
    settings: ({ url, key }) => ({
      env: { GROQ_BASE_URL: url, GROQ_API_KEY: key },
      code: `import Groq from 'groq-sdk';\n\nconst client = new Groq();`,
    }),
    next: `client.chat.completions.create({ model: 'llama-3.3-70b-versatile', messages: [{ role: 'user', content: 'Hello' }] })`,
    model: 'llama-3.3-70b-versatile',
    routes: ['POST /openai/v1/chat/completions'],
    note: 'It adds /openai/v1 to the address itself.',
  },
  {
    name: 'mistral-js',
    title: 'Mistral SDK for TypeScript',
    install: 'npm install @mistralai/mistralai',
    settings: ({ url, key }) => ({
      env: { MISTRAL_API_KEY: key },
      code: `import { Mistral } from '@mistralai/mistralai';\n\nconst client = new Mistral({ serverURL: '${url}', apiKey: process.env.MISTRAL_API_KEY });`,
    }),
    next: `client.chat.complete({ model: 'mistral-small-latest', messages: [{ role: 'user', content: 'Hello' }] })`,
    model: 'mistral-small-latest',
    routes: ['GET /v1/models', CHAT],
  },
  {
    name: 'openai-agents-js',
    title: 'OpenAI Agents SDK for JavaScript',
    install: 'npm install @openai/agents',
    settings: (service) => ({
      env: openaiEnv(service),
      code: `import { Agent, run, setTracingDisabled, tool } from '@openai/agents';\n\nsetTracingDisabled(true);`,
    }),
    next: `run(new Agent({ name: 'Assistant' }), 'Hello')`,
    model: 'gpt-5.6-luna',
    routes: [RESPONSES],
    note: 'Its traces would go to api.openai.com with this key, so the code turns them off. With openai/ before the name, it sends no reasoning effort and no verbosity.',
  },
  {
    name: 'ai-sdk-openai',
    title: 'Vercel AI SDK with OpenAI models',
    install: 'npm install ai @ai-sdk/openai',
    settings: (service) => ({
      env: openaiEnv(service),
      code: `import { openai } from '@ai-sdk/openai';\n\nconst model = openai('${GPT}');`,
    }),
    next: `generateText({ model, prompt: 'Hello' })`,
    model: GPT,
    routes: [RESPONSES],
    note: 'With openai/ before the name, it sends system messages as such, not as those of a developer, and temperatures.',
  },
  {
    name: 'ai-sdk-anthropic',
    title: 'Vercel AI SDK with Anthropic models',
    install: 'npm install ai @ai-sdk/anthropic',
    settings: ({ url, key }) => ({
      env: { ANTHROPIC_BASE_URL: `${url}/v1`, ANTHROPIC_API_KEY: key },
      code: `import { anthropic } from '@ai-sdk/anthropic';\n\nconst model = anthropic('${CLAUDE}');`,
    }),
    next: `generateText({ model, prompt: 'Hello' })`,
    model: CLAUDE,
    routes: [MESSAGES],
    note: 'Unlike for the Anthropic SDK, the address ends in /v1.',
  },
  {
    name: 'ai-sdk-google',
    title: 'Vercel AI SDK with Gemini models',
    install: 'npm install ai @ai-sdk/google',
    settings: ({ url, key }) => ({
      env: { GOOGLE_GENERATIVE_AI_API_KEY: key },
      code: `import { createGoogleGenerativeAI } from '@ai-sdk/google';\n\nconst google = createGoogleGenerativeAI({ baseURL: '${url}/v1beta' });\nconst model = google('${GEMINI}');`,
    }),
    next: `generateText({ model, prompt: 'Hello' })`,
    model: GEMINI,
    routes: geminiRoutes('v1beta', GEMINI),
    note: 'It cannot name a provider before the model.',
  },
  {
    name: 'google-genai-js',
    title: 'Google Gen AI SDK for JavaScript',
    install: 'npm install @google/genai',
    settings: ({ url, key }) => ({
      env: { GEMINI_API_KEY: key, GOOGLE_GEMINI_BASE_URL: url },
      code: `import { GoogleGenAI } from '@google/genai';\n\nconst client = new GoogleGenAI({});`,
    }),
    next: `client.models.generateContent({ model: '${GEMINI}', contents: 'Hello' })`,
    model: GEMINI,
    routes: geminiRoutes('v1', GEMINI),
  },
  {
    name: 'langchain-openai-js',
    title: 'LangChain.js with OpenAI models',
    install: 'npm install @langchain/openai @langchain/core',
    settings: (service) => ({
      env: openaiEnv(service),
      code: `import { ChatOpenAI } from '@langchain/openai';\n\nconst model = new ChatOpenAI({ model: '${GPT}' });`,
    }),
    next: `model.invoke('Hello')`,
    model: GPT,
    routes: [CHAT],
  },
  {
    name: 'langchain-anthropic-js',
    title: 'LangChain.js with Anthropic models',
    install: 'npm install @langchain/anthropic @langchain/core',
    settings: (service) => ({
      env: anthropicEnv(service),
      code: `import { ChatAnthropic } from '@langchain/anthropic';\n\nconst model = new ChatAnthropic({ model: '${CLAUDE}' });`,
    }),
    next: `model.invoke('Hello')`,
    model: CLAUDE,
    routes: [MESSAGES],
    note: 'With anthropic/ before the name, it limits answers to 4,096 tokens instead of 16,384.',
  },
  {
    name: 'llamaindex-js',
    title: 'LlamaIndex.TS with OpenAI models',
    install: 'npm install llamaindex @llamaindex/openai',
    settings: (service) => ({
      env: openaiEnv(service),
      code: `import { openai } from '@llamaindex/openai';\n\nconst llm = openai({ model: '${GPT}' });`,
    }),
    next: `llm.complete({ prompt: 'Hello' })`,
    model: GPT,
    routes: [CHAT],
  },
];
