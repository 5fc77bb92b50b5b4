import { GEMINI, geminiEnv } from './pythonSdks.ts';
import type { Recipe, Service } from './recipe.ts';
import { anthropicEnv, CHAT, CLAUDE, GPT, geminiRoutes, MESSAGES, openaiEnv, RESPONSES } from './vendors.ts';

/** The older name of the variable, which these read. */
const openaiBaseEnv = ({ url, key }: Service) => ({ OPENAI_API_BASE: `${url}/v1`, OPENAI_API_KEY: key });

type Env = (service: Service) => Record<string, string>;

/** The package of LangChain for a vendor's models, and the class in it. */
function langchain(name: string, className: string, env: Env, model: string) {
  return {
    install: `pip install ${name}`,
    settings: (service: Service) => ({
      env: env(service),
      code: `from ${name.replaceAll('-', '_')} import ${className}\n\nmodel = ${className}(model="${model}")`,
    }),
    next: 'model.invoke("Hello")',
    model,
  };
}

function pydanticAi(models: string, vendor: string, env: Env, model: string) {
  return {
    title: `Pydantic AI with ${models} models`,
    install: `pip install "pydantic-ai-slim[${vendor}]"`,
    settings: (service: Service) => ({
      env: env(service),
      code: `from pydantic_ai import Agent\n\nagent = Agent("${vendor}:${model}")`,
    }),
    next: 'agent.run_sync("Hello")',
    model,
  };
}

function instructor(vendor: string, env: Env, model: string) {
  return {
    settings: (service: Service) => ({
      env: env(service),
      code: `import instructor\n\nclient = instructor.from_provider("${vendor}/${model}")`,
    }),
    next: 'client.chat.completions.create(response_model=Truck, messages=[{"role": "user", "content": "Hello"}])',
    model,
  };
}

/** Frameworks of PyPI. */
export const PYTHON_FRAMEWORKS: readonly Recipe[] = [
  {
    name: 'litellm',
    title: 'LiteLLM (the Python library) with OpenAI models',
    install: 'pip install "litellm[mcp]"',
    settings: (service) => ({ env: openaiEnv(service), code: 'import litellm' }),
    next: `litellm.completion(model="openai/${GPT}", messages=[{"role": "user", "content": "Hello"}])`,
    model: GPT,
    routes: [CHAT],
    note: 'It strips openai/ itself. Without mcp it can use no tools.',
  },
  {
    name: 'litellm-anthropic',
    title: 'LiteLLM with Anthropic models',
    install: 'pip install "litellm[mcp]"',
    settings: (service) => ({ env: anthropicEnv(service), code: 'import litellm' }),
    next: `litellm.completion(model="anthropic/${CLAUDE}", messages=[{"role": "user", "content": "Hello"}])`,
    model: CLAUDE,
    routes: [MESSAGES],
    note: 'It strips anthropic/ itself.',
  },
  {
    name: 'litellm-google',
    title: 'LiteLLM with Gemini models',
    install: 'pip install "litellm[mcp]"',
    settings: ({ url, key }) => ({
      env: { GEMINI_API_BASE: `${url}/v1beta`, GEMINI_API_KEY: key },
      code: 'import litellm',
    }),
    next: `litellm.completion(model="gemini/${GEMINI}", messages=[{"role": "user", "content": "Hello"}])`,
    model: GEMINI,
    routes: geminiRoutes('v1beta', GEMINI),
    note: 'It strips gemini/ itself.',
  },
  {
    ...langchain('langchain-openai', 'ChatOpenAI', openaiEnv, GPT),
    name: 'langchain-openai-python',
    title: 'LangChain with OpenAI models',
    routes: [CHAT],
  },
  {
    ...langchain('langchain-anthropic', 'ChatAnthropic', anthropicEnv, CLAUDE),
    name: 'langchain-anthropic-python',
    title: 'LangChain with Anthropic models',
    routes: [MESSAGES],
    note: 'With anthropic/ before the name, it limits answers to 4,096 tokens instead of 128,000.',
  },
  {
    ...langchain('langchain-google-genai', 'ChatGoogleGenerativeAI', geminiEnv, GEMINI),
    name: 'langchain-google-python',
    title: 'LangChain with Gemini models',
    routes: geminiRoutes('v1beta', GEMINI),
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
    ...pydanticAi('OpenAI', 'openai', openaiEnv, GPT),
    name: 'pydantic-ai',
    routes: [RESPONSES],
    note: 'With openai/ before the name, it sends no reasoning context and asks for no encrypted reasoning.',
  },
  {
    ...pydanticAi('Anthropic', 'anthropic', anthropicEnv, CLAUDE),
    name: 'pydantic-ai-anthropic',
    routes: [MESSAGES],
    note: 'With anthropic/ before the name, it limits answers to 16,384 tokens instead of 128,000.',
  },
  {
    ...pydanticAi('Gemini', 'google', geminiEnv, GEMINI),
    name: 'pydantic-ai-google',
    routes: geminiRoutes('v1beta', GEMINI),
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
    note: 'Its traces would go to api.openai.com with this key, so the code turns them off. With openai/ before the name, it sends no reasoning effort and no verbosity.',
  },
  {
    ...instructor('openai', openaiEnv, GPT),
    name: 'instructor',
    title: 'Instructor with OpenAI models',
    install: 'pip install instructor',
    routes: [CHAT],
  },
  {
    ...instructor('anthropic', anthropicEnv, CLAUDE),
    name: 'instructor-anthropic',
    title: 'Instructor with Anthropic models',
    install: 'pip install instructor anthropic',
    routes: [MESSAGES],
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
];
