import type {
  ResponseTextConfig,
  ToolChoiceAllowed,
  ToolChoiceFunction,
} from 'openai/resources/responses/responses';
import type { Reasoning as ReasoningWire } from 'openai/resources/shared';
import {
  EFFORTS,
  type ModelRequest,
  type Reasoning,
  type StructuredOutput,
  type TextPart,
  type Tool,
  type ToolChoice,
} from '../ir/request.ts';
import type { KeptShape } from '../json/parseBody.ts';
import { Fields, fieldsOf, type ReadContext } from '../loss/fields.ts';
import { type AllowedTools, readAllowed } from '../tools/allowedTools.ts';
import { hostedService } from '../tools/hosted.ts';
import { readInput } from './readInput.ts';
import { readTools } from './readTools.ts';
import type { ResponsesBody } from './wire.ts';

const TOOL_SHAPE: KeptShape = { members: { parameters: 'kept' } };
const TOOLS_SHAPE: KeptShape = { items: { members: { parameters: 'kept', tools: { items: TOOL_SHAPE } } } };

/** What is kept as it was written: schemas, and arguments, which are a text but for searches of tools. */
export const RESPONSES_SHAPE: KeptShape = {
  members: {
    // Where nothing is kept, the items are counted.
    input: {
      items: {
        members: {
          arguments: 'kept',
          content: { items: {} },
          output: { items: {} },
          summary: { items: {} },
          tools: TOOLS_SHAPE,
        },
      },
    },
    tools: TOOLS_SHAPE,
    text: { members: { format: { members: { schema: 'kept' } } } },
  },
};

const RUNS_THERE = ['conversation', 'prompt', 'context_management', 'previous_response_id'] as const;
/** What our answers have anyway: reasoning in envelopes. */
const ENCRYPTED = 'reasoning.encrypted_content';
const VENDOR_ONLY = [
  'client_metadata',
  'max_tool_calls',
  'metadata',
  'prompt_cache_retention',
  'service_tier',
  'stream_options',
] as const;

/** Reads a body of OpenAI's responses (https://platform.openai.com/docs/api-reference/responses), which `RESPONSES_SHAPE` parsed. */
export function readResponsesRequest(value: unknown, context: ReadContext): ModelRequest {
  const body = fieldsOf<ResponsesBody>(value, '', context) ?? new Fields<ResponsesBody>({}, '', context);
  body.take('model');
  const instructions = body.text('instructions');
  const system: TextPart[] = instructions ? [{ kind: 'text', text: instructions, path: 'instructions' }] : [];
  const tools = readTools(body);
  const found: Tool[] = [];
  const messages = readInput(body, found);
  const request: ModelRequest = {
    stream: body.flag('stream') ?? false,
    wantsUsage: true,
    system,
    messages,
    tools: withFound(tools, found),
    toolChoice: readChoice(body),
    parallelCalls: body.flagSetting('parallel_tool_calls'),
    maxTokens: body.numberSetting('max_output_tokens'),
    limitPath: 'max_output_tokens',
    sampling: { temperature: body.numberSetting('temperature'), topP: body.numberSetting('top_p') },
    reasoning: readReasoning(body),
    ...readText(body),
    user: body.textSetting('safety_identifier') ?? body.textSetting('user'),
    cacheKey: body.textSetting('prompt_cache_key'),
  };
  readOthers(body);
  body.end();
  return request;
}

/** A search may find a tool again. */
function withFound(tools: readonly Tool[], found: readonly Tool[]): readonly Tool[] {
  if (found.length === 0) return tools;
  const names = new Set(tools.map(({ name }) => name));
  const added = found.filter(({ name }) => !names.has(name) && names.add(name));
  return [...tools, ...added];
}

function readOthers(body: Fields<ResponsesBody>): void {
  const { losses } = body.context;
  for (const name of VENDOR_ONLY) body.drop(name, 'only its vendor has it');
  for (const name of RUNS_THERE) body.refuse(name, 'only its vendor has it');
  if (body.texts('include')?.some((one) => one !== ENCRYPTED)) {
    losses.add('include', 'dropped', 'only its vendor has it');
  }
  if (body.flag('background')) losses.add('background', 'refused', 'only its vendor has it');
  readStorage(body);
  if (body.word('truncation', ['auto', 'disabled']) === 'auto') {
    losses.add('truncation', 'dropped', 'a conversation that is too long is not shortened');
  }
  if (body.number('top_logprobs')) losses.add('top_logprobs', 'refused', 'it has no counterpart');
}

function readStorage(body: Fields<ResponsesBody>): void {
  const { losses, storage = 'nowhere' } = body.context;
  const isAsked = body.flag('store');
  // It is the default too, so that the caller may count on it.
  if (storage === 'too_large') losses.add('store', 'dropped', 'the conversation is too large to be stored');
  else if (isAsked && storage === 'nowhere')
    losses.add('store', 'dropped', 'the vendor does not store the response');
}

function readChoice(body: Fields<ResponsesBody>): ToolChoice | undefined {
  const value = body.take('tool_choice');
  const path = 'tool_choice';
  if (value === undefined) return undefined;
  if (value === 'auto' || value === 'none') return { path, mode: value, name: '' };
  if (value === 'required') return { path, mode: 'any', name: '' };
  const wire = fieldsOf<ToolChoiceFunction | ToolChoiceAllowed>(value, path, body.context);
  const type = wire?.text('type');
  if (!wire || type === undefined) return undefined;
  if (type === 'function' || type === 'custom') {
    const name = wire.need('name', wire.text('name')) ?? '';
    wire.end();
    return { path, mode: 'one', name };
  }
  if (type === 'allowed_tools') {
    return readAllowed(wire as Fields<AllowedTools>, path, (tool) => {
      tool.word('type', ['function', 'custom'] as const);
      return tool.need('name', tool.text('name'));
    });
  }
  if (hostedService(type)) return { path, mode: 'one', name: type };
  body.context.losses.add(path, 'refused', `a choice of type ${type.slice(0, 40)} has no counterpart`);
  return undefined;
}

const SUMMARIES = ['auto', 'concise', 'detailed', 'none'] as const;

function readReasoning(body: Fields<ResponsesBody>): Reasoning | undefined {
  const wire = body.object<ReasoningWire & { context?: unknown; mode?: unknown }>('reasoning');
  if (!wire) return undefined;
  const effort = wire.wordSetting('effort', EFFORTS);
  const summary = wire.word('summary', SUMMARIES) ?? wire.word('generate_summary', SUMMARIES);
  if (summary === 'concise' || summary === 'detailed')
    wire.change('summary', 'the vendor decides its length');
  wire.end();
  const isShown = summary !== undefined && summary !== 'none';
  const shownPath = isShown ? wire.at('summary') : undefined;
  return effort || isShown
    ? { path: 'reasoning', effort, isAdaptive: !effort, isShown, shownPath }
    : undefined;
}

interface FormatWire {
  readonly type?: string;
  readonly name?: string;
  readonly description?: string;
  readonly schema?: unknown;
  readonly strict?: boolean | null;
}

function readText(body: Fields<ResponsesBody>): Pick<ModelRequest, 'output' | 'verbosity'> {
  const text = body.object<ResponseTextConfig>('text');
  if (!text) return {};
  const verbosity = text.textSetting('verbosity');
  const format = text.object<FormatWire>('format');
  text.end();
  return { verbosity, output: format && readFormat(format) };
}

function readFormat(format: Fields<FormatWire>): StructuredOutput | undefined {
  const type = format.need('type', format.word('type', ['text', 'json_object', 'json_schema']));
  const output: StructuredOutput = {
    path: format.path,
    name: format.text('name'),
    description: format.text('description'),
    schema: format.json('schema'),
    strict: format.flag('strict'),
  };
  if (type === 'json_schema') format.need('schema', output.schema);
  format.end();
  return type === 'json_schema' || type === 'json_object' ? output : undefined;
}
