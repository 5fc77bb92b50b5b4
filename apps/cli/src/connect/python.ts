import type { Recipe, Service } from './recipe.ts';

const openaiEnv = ({ url, key }: Service) => ({ OPENAI_BASE_URL: `${url}/v1`, OPENAI_API_KEY: key });
/** The older name of the variable, which these read. */
const openaiBaseEnv = ({ url, key }: Service) => ({ OPENAI_API_BASE: `${url}/v1`, OPENAI_API_KEY: key });
const anthropicEnv = ({ url, key }: Service) => ({ ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: key });

const GPT = 'gpt-5.5';
const CLAUDE = 'claude-sonnet-5-5';

const CHAT = 'POST /v1/chat/completions';
const RESPONSES = 'POST /v1/responses';
const MESSAGES = 'POST /v1/messages';

/** SDKs and frameworks of PyPI. */
export const PYTHON: readonly Recipe[] = [
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
    name: 'litellm',
    title: 'LiteLLM (the Python library)',
    install: 'pip install litellm',
    settings: (service) => ({
      env: { ...openaiEnv(service), ...anthropicEnv(service) },
      code: 'import litellm',
    }),
    next: `litellm.completion(model="${CLAUDE}", messages=[{"role": "user", "content": "Hello"}])`,
    model: GPT,
    routes: [CHAT],
  },
  {
    name: 'langchain-openai-python',
    title: 'LangChain with OpenAI models',
    install: 'pip install langchain-openai',
    settings: (service) => ({
      env: openaiEnv(service),
      code: `from langchain_openai import ChatOpenAI\n\nmodel = ChatOpenAI(model="${GPT}")`,
    }),
    next: 'model.invoke("Hello")',
    model: GPT,
    routes: [CHAT],
  },
  {
    name: 'langchain-anthropic-python',
    title: 'LangChain with Anthropic models',
    install: 'pip install langchain-anthropic',
    settings: (service) => ({
      env: anthropicEnv(service),
      code: `from langchain_anthropic import ChatAnthropic\n\nmodel = ChatAnthropic(model="${CLAUDE}")`,
    }),
    next: 'model.invoke("Hello")',
    model: CLAUDE,
    routes: [MESSAGES],
  },
  {
    name: 'llama-index-python',
    title: 'LlamaIndex with OpenAI models',
    install: 'pip install llama-index-llms-openai',
    settings: (service) => ({
      env: openaiBaseEnv(service),
      code: `from llama_index.llms.openai import OpenAI\n\nllm = OpenAI(model="${GPT}")`,
    }),
    next: 'llm.complete("Hello")',
    model: GPT,
    routes: [CHAT],
    note: 'It reads OPENAI_API_BASE, not OPENAI_BASE_URL, and refuses models that it does not know.',
  },
  {
    name: 'pydantic-ai',
    title: 'Pydantic AI',
    install: 'pip install "pydantic-ai-slim[openai]"',
    settings: (service) => ({
      env: openaiEnv(service),
      code: `from pydantic_ai import Agent\n\nagent = Agent("openai:${GPT}")`,
    }),
    next: 'agent.run_sync("Hello")',
    model: GPT,
    routes: [RESPONSES],
  },
  {
    name: 'openai-agents-python',
    title: 'OpenAI Agents SDK for Python',
    install: 'pip install openai-agents',
    settings: (service) => ({
      env: openaiEnv(service),
      code: 'from agents import Agent, Runner, function_tool, set_tracing_disabled\n\nset_tracing_disabled(True)',
    }),
    next: 'Runner.run_sync(Agent(name="Assistant"), "Hello")',
    model: 'gpt-5.6-luna',
    routes: [RESPONSES],
    note: 'Its traces would go to api.openai.com with this key, so the code turns them off.',
  },
  {
    name: 'instructor',
    title: 'Instructor',
    install: 'pip install instructor',
    settings: (service) => ({
      env: openaiEnv(service),
      code: `import instructor\n\nclient = instructor.from_provider("openai/${GPT}")`,
    }),
    next: 'client.chat.completions.create(response_model=Truck, messages=[{"role": "user", "content": "Hello"}])',
    model: GPT,
    routes: [CHAT],
  },
  {
    name: 'dspy',
    title: 'DSPy',
    install: 'pip install dspy',
    settings: (service) => ({
      env: openaiEnv(service),
      code: `import dspy\n\nlm = dspy.LM("openai/${GPT}")\ndspy.configure(lm=lm)`,
    }),
    next: 'lm("Hello")',
    model: GPT,
    routes: [CHAT],
    note: 'It strips openai/ itself.',
  },
  {
    name: 'smolagents',
    title: 'smolagents',
    install: 'pip install "smolagents[openai]"',
    settings: (service) => ({
      env: openaiEnv(service),
      code: `from smolagents import OpenAIModel, Tool, ToolCallingAgent\n\nmodel = OpenAIModel(model_id="${GPT}")`,
    }),
    next: 'ToolCallingAgent(tools=[], model=model).run("Hello")',
    model: GPT,
    routes: [CHAT],
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
