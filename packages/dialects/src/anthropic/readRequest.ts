import type {
  BetaMessageParam,
  BetaOutputConfig,
  BetaToolChoiceTool,
} from '@anthropic-ai/sdk/resources/beta/messages/messages';
import type {
  Effort,
  Message,
  ModelRequest,
  Reasoning,
  StructuredOutput,
  TextPart,
  ToolChoice,
} from '../ir/request.ts';
import type { KeptShape } from '../json/parseBody.ts';
import { Fields, fieldsOf, isRecord, type ReadContext, recordsIn } from '../loss/fields.ts';
import { readContent } from './readContent.ts';
import { readTools } from './readTools.ts';
import type { MessagesBody } from './wire.ts';

/** What is kept as it was written: arguments and schemas. */
export const MESSAGES_SHAPE: KeptShape = {
  members: {
    // Where nothing is kept, the items are counted.
    system: { items: {} },
    messages: {
      items: { members: { content: { items: { members: { input: 'kept', content: { items: {} } } } } } },
    },
    tools: { items: { members: { input_schema: 'kept' } } },
    output_config: { members: { format: { members: { schema: 'kept' } } } },
    output_format: { members: { schema: 'kept' } },
  },
};

const VENDOR_ONLY = [
  'betas',
  'billing_policy',
  'cache_control',
  'diagnostics',
  'fallback_credit_token',
  'fallbacks',
  'inference_geo',
  'service_tier',
  'speed',
  'user_profile_id',
  'workspace_id',
] as const;
const RUNS_THERE = ['mcp_servers', 'container', 'thread', 'compaction'] as const;
/** A line that Claude Code adds for Anthropic's accounting. */
const BILLING_LINE = 'x-anthropic-billing-header:';

/** Reads a body of Anthropic's messages (https://docs.anthropic.com/en/api/messages), which `MESSAGES_SHAPE` parsed. */
export function readMessagesRequest(value: unknown, context: ReadContext): ModelRequest {
  const body = fieldsOf<MessagesBody>(value, '', context) ?? new Fields<MessagesBody>({}, '', context);
  body.take('model');
  const request: ModelRequest = {
    stream: body.flag('stream') ?? false,
    wantsUsage: true,
    system: readSystem(body),
    messages: readMessages(body),
    tools: readTools(body),
    ...readChoice(body),
    maxTokens: body.numberSetting('max_tokens'),
    limitPath: 'max_tokens',
    sampling: {
      temperature: body.numberSetting('temperature'),
      topP: body.numberSetting('top_p'),
      topK: body.numberSetting('top_k'),
      stop: body.textsSetting('stop_sequences'),
    },
    ...readOutputConfig(body),
    user: readUser(body),
  };
  for (const name of VENDOR_ONLY) body.drop(name, 'only its vendor has it');
  readContextManagement(body);
  for (const name of RUNS_THERE) body.refuse(name, 'only its vendor runs it');
  body.end();
  return request;
}

/** Claude Code asks for edits with each request, which cost nothing to leave out; compaction replaces the conversation. */
function readContextManagement(body: Fields<MessagesBody>): void {
  const management = body.take('context_management');
  if (management === undefined) return;
  const edits = isRecord(management) ? recordsIn(management.edits) : [];
  const compacts = edits.some(({ type }) => typeof type === 'string' && type.startsWith('compact'));
  const { losses } = body.context;
  if (compacts) losses.add('context_management', 'refused', 'only its vendor compacts a conversation');
  else losses.add('context_management', 'dropped', 'only its vendor has it');
}

function readSystem(body: Fields<MessagesBody>): TextPart[] {
  const parts = readContent(body.take('system') ?? [], 'system', body.context);
  return parts.flatMap((part): TextPart[] => {
    const { losses } = body.context;
    if (part.kind !== 'text') losses.add(part.path, 'refused', 'expected a text block');
    else if (!part.text.startsWith(BILLING_LINE)) return [part];
    else losses.add(part.path, 'dropped', "it is for its vendor's accounting");
    return [];
  });
}

function readMessages(body: Fields<MessagesBody>): Message[] {
  const list = body.need('messages', body.list('messages')) ?? [];
  const messages: Message[] = [];
  for (let index = 0; index < list.length; index++) {
    const message = fieldsOf<BetaMessageParam>(list[index], `messages.${index}`, body.context);
    if (!message) continue;
    const role = message.need('role', message.word('role', ['user', 'assistant', 'system'] as const));
    const content = message.need('content', message.take('content'));
    message.end();
    messages.push({
      role: role === 'system' ? ('instruction' as const) : (role ?? 'user'),
      parts: readContent(content ?? [], message.at('content'), body.context),
    });
  }
  return messages;
}

function readChoice(body: Fields<MessagesBody>): Pick<ModelRequest, 'toolChoice' | 'parallelCalls'> {
  const wire = body.object<BetaToolChoiceTool>('tool_choice');
  if (!wire) return {};
  const type = wire.word('type', ['auto', 'any', 'none', 'tool']);
  const name = type === 'tool' ? (wire.need('name', wire.text('name')) ?? '') : '';
  const disabled = wire.flagSetting('disable_parallel_tool_use');
  wire.end();
  const choice: ToolChoice | undefined = type && {
    path: 'tool_choice',
    mode: type === 'tool' ? 'one' : type,
    name,
  };
  return { toolChoice: choice, parallelCalls: disabled && { value: !disabled.value, path: disabled.path } };
}

const EFFORTS: readonly Effort[] = ['low', 'medium', 'high', 'xhigh', 'max'];

function readOutputConfig(body: Fields<MessagesBody>): Pick<ModelRequest, 'reasoning' | 'output'> {
  const config = body.object<BetaOutputConfig>('output_config');
  const effort = config?.wordSetting('effort', EFFORTS);
  config?.drop('task_budget', 'only its vendor has it');
  const format = config?.object<FormatWire>('format') ?? body.object<FormatWire>('output_format');
  config?.end();
  return { reasoning: readThinking(body, effort), output: format && readFormat(format) };
}

interface FormatWire {
  readonly type?: string;
  readonly schema?: unknown;
}

function readFormat(format: Fields<FormatWire>): StructuredOutput | undefined {
  format.word('type', ['json_schema']);
  const schema = format.json('schema');
  format.need('schema', schema);
  format.end();
  return { path: format.path, schema, strict: true };
}

interface ThinkingWire {
  readonly type?: string;
  readonly budget_tokens?: number;
  readonly display?: string | null;
  readonly block_binding?: unknown;
}

function readThinking(body: Fields<MessagesBody>, effort: Reasoning['effort']): Reasoning | undefined {
  const thinking = body.object<ThinkingWire>('thinking');
  if (!thinking) {
    return effort && { path: effort.path, effort, isAdaptive: false, isShown: true };
  }
  const type = thinking.need(
    'type',
    thinking.word('type', ['enabled', 'disabled', 'adaptive', 'between_tools']),
  );
  const budget = thinking.numberSetting('budget_tokens');
  const display = thinking.word('display', ['summarized', 'omitted', 'updates']);
  thinking.drop('block_binding', 'only its vendor has it');
  thinking.end();
  if (type === undefined) return undefined;
  const isOff = type === 'disabled';
  return {
    path: 'thinking',
    effort: isOff ? { value: 'none', path: 'thinking' } : effort,
    budget: isOff ? undefined : budget,
    isAdaptive: type === 'adaptive' || type === 'between_tools',
    isShown: !isOff && display !== 'omitted',
    shownPath: display && thinking.at('display'),
  };
}

function readUser(body: Fields<MessagesBody>): ModelRequest['user'] {
  const metadata = body.object<{ user_id?: string | null }>('metadata');
  const user = metadata?.textSetting('user_id');
  metadata?.end();
  return user;
}
