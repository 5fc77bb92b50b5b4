import type { ChatCompletionToolChoiceOption } from 'openai/resources/chat/completions/completions';
import type { ModelRequest, Sampling, StructuredOutput, Tool, ToolChoice } from '../ir/request.ts';
import type { KeptShape } from '../json/parseBody.ts';
import { Fields, fieldsOf, type ReadContext } from '../loss/fields.ts';
import { type AllowedTools, readAllowed } from '../tools/allowedTools.ts';
import { readEffort } from './readEffort.ts';
import { readMessages } from './readMessages.ts';
import { readTools } from './readTools.ts';
import type { ChatBody } from './wire.ts';

/** What is kept as it was written: schemas. Arguments are text there. */
export const CHAT_SHAPE: KeptShape = {
  members: {
    // Where nothing is kept, the items are counted.
    messages: {
      items: {
        members: { content: { items: {} }, tool_calls: { items: {} }, reasoning_details: { items: {} } },
      },
    },
    tools: { items: { members: { function: { members: { parameters: 'kept' } } } } },
    response_format: { members: { json_schema: { members: { schema: 'kept' } } } },
  },
};

const VENDOR_ONLY = ['metadata', 'prediction', 'prompt_cache_retention', 'service_tier'] as const;
const NO_COUNTERPART = ['audio', 'function_call', 'functions', 'logit_bias'] as const;

/** Reads a body of chat completions (https://platform.openai.com/docs/api-reference/chat), which `CHAT_SHAPE` parsed. */
export function readChatRequest(value: unknown, context: ReadContext): ModelRequest {
  const body = fieldsOf<ChatBody>(value, '', context) ?? new Fields<ChatBody>({}, '', context);
  body.take('model');
  const request: ModelRequest = {
    stream: body.flag('stream') ?? false,
    wantsUsage: readStreamOptions(body),
    system: [],
    messages: readMessages(body),
    tools: [...readTools(body), ...readSearch(body)],
    toolChoice: readChoice(body),
    parallelCalls: body.flagSetting('parallel_tool_calls'),
    maxTokens: body.numberSetting('max_completion_tokens') ?? body.numberSetting('max_tokens'),
    limitPath: 'max_completion_tokens',
    sampling: readSampling(body),
    reasoning: readEffort(body),
    output: readFormat(body),
    verbosity: body.textSetting('verbosity'),
    user: body.textSetting('safety_identifier') ?? body.textSetting('user'),
    cacheKey: body.textSetting('prompt_cache_key'),
  };
  readOthers(body);
  body.end();
  return request;
}

function readOthers(body: Fields<ChatBody>): void {
  const { losses } = body.context;
  for (const name of VENDOR_ONLY) body.drop(name, 'only its vendor has it');
  for (const name of NO_COUNTERPART) body.refuse(name, 'it has no counterpart');
  if ((body.number('n') ?? 1) !== 1) losses.add('n', 'refused', 'other dialects have one choice');
  if (body.flag('logprobs')) losses.add('logprobs', 'refused', 'it has no counterpart');
  if (body.number('top_logprobs')) losses.add('top_logprobs', 'refused', 'it has no counterpart');
  if (body.flag('store')) losses.add('store', 'dropped', 'the vendor does not store the response');
  const modalities = body.texts('modalities');
  if (modalities?.some((modality) => modality !== 'text')) {
    losses.add('modalities', 'refused', 'the answer is text');
  }
}

function readStreamOptions(body: Fields<ChatBody>): boolean {
  const options = body.object<{ include_usage?: boolean; include_obfuscation?: boolean }>('stream_options');
  options?.drop('include_obfuscation', 'the stream has none');
  const wantsUsage = options?.flag('include_usage') ?? false;
  options?.end();
  return wantsUsage;
}

function readSearch(body: Fields<ChatBody>): Tool[] {
  const options = body.object<object>('web_search_options');
  options?.end();
  return options ? [{ kind: 'hosted', path: options.path, name: 'web_search', service: 'web_search' }] : [];
}

function readSampling(body: Fields<ChatBody>): Sampling {
  const isOne = body.has('stop') && typeof body.take('stop') === 'string';
  const stop = isOne ? body.textSetting('stop') : undefined;
  return {
    temperature: body.numberSetting('temperature'),
    topP: body.numberSetting('top_p'),
    topK: body.numberSetting('top_k'),
    seed: body.numberSetting('seed'),
    presencePenalty: body.numberSetting('presence_penalty'),
    frequencyPenalty: body.numberSetting('frequency_penalty'),
    stop: stop ? { value: [stop.value], path: stop.path } : body.textsSetting('stop'),
  };
}

function readChoice(body: Fields<ChatBody>): ToolChoice | undefined {
  const value = body.take('tool_choice');
  const path = 'tool_choice';
  if (value === undefined) return undefined;
  if (value === 'auto' || value === 'none') return { path, mode: value, name: '' };
  if (value === 'required') return { path, mode: 'any', name: '' };
  const wire = fieldsOf<Exclude<ChatCompletionToolChoiceOption, string>>(value, path, body.context);
  const type = wire?.word('type', ['function', 'custom', 'allowed_tools'] as const);
  if (!wire || !type) return undefined;
  if (type === 'allowed_tools') {
    const given = wire.need(type, wire.object<AllowedTools>(type));
    wire.end();
    return (
      given &&
      readAllowed(given, path, (tool) => {
        const kind = tool.word('type', ['function', 'custom'] as const);
        const named = kind && tool.need(kind, tool.object<{ name?: string }>(kind));
        const name = named?.need('name', named.text('name'));
        named?.end();
        return name;
      })
    );
  }
  const named = wire.object<{ name?: string }>(type);
  wire.need(type, named);
  const name = named?.need('name', named.text('name')) ?? '';
  named?.end();
  wire.end();
  return { path, mode: 'one', name };
}

interface FormatWire {
  readonly type?: string;
  readonly json_schema?: unknown;
}

interface SchemaWire {
  readonly name?: string;
  readonly description?: string;
  readonly schema?: unknown;
  readonly strict?: boolean | null;
}

function readFormat(body: Fields<ChatBody>): StructuredOutput | undefined {
  const format = body.object<FormatWire>('response_format');
  const type = format?.need('type', format.word('type', ['text', 'json_object', 'json_schema']));
  if (!format || !type) return undefined;
  const wire = format.object<SchemaWire>('json_schema');
  if (type === 'json_schema') format.need('json_schema', wire);
  const output: StructuredOutput = {
    path: format.path,
    name: wire?.text('name'),
    description: wire?.text('description'),
    schema: wire?.json('schema'),
    strict: wire?.flag('strict'),
  };
  wire?.end();
  format.end();
  return type === 'text' ? undefined : output;
}
