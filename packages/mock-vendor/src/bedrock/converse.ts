import { eventFrame } from './eventFrame.ts';

type Fields = Readonly<Record<string, unknown>>;

/** A request to Converse as the vendor behind it takes it, in messages. */
export function messagesOf(body: Fields, model: string): Fields {
  const { system, inferenceConfig, toolConfig, outputConfig } = body as {
    outputConfig?: OutputConfig;
    system?: Fields[];
    inferenceConfig?: Fields;
    toolConfig?: { tools: { toolSpec: ToolSpec }[]; toolChoice?: Fields };
  };
  const { maxTokens = 4_096, temperature, topP, stopSequences } = inferenceConfig ?? {};
  const messages = body.messages as { role: string; content: Fields[] }[];
  return {
    model,
    max_tokens: maxTokens,
    ...(temperature !== undefined && { temperature }),
    ...(topP !== undefined && { top_p: topP }),
    ...(stopSequences !== undefined && { stop_sequences: stopSequences }),
    ...(system && { system: markedBlocks(system) }),
    ...(toolConfig && {
      tools: toolConfig.tools.map(({ toolSpec: { name, description, inputSchema } }) => ({
        name,
        ...(description !== undefined && { description }),
        input_schema: inputSchema.json,
      })),
      ...(toolConfig.toolChoice && { tool_choice: choiceOf(toolConfig.toolChoice) }),
    }),
    ...(outputConfig && { output_config: outputOf(outputConfig) }),
    messages: messages.map(({ role, content }) => ({ role, content: markedBlocks(content) })),
  };
}

/** A cache point marks the block before it. */
function markedBlocks(blocks: readonly Fields[]): Fields[] {
  return blocks.flatMap((block, at) => {
    if ('cachePoint' in block) return [];
    const isMarked = 'cachePoint' in (blocks[at + 1] ?? {});
    return [{ ...blockOf(block), ...(isMarked && { cache_control: { type: 'ephemeral' } }) }];
  });
}

interface OutputConfig {
  readonly effort?: string;
  readonly textFormat?: { readonly structure: { readonly jsonSchema: { readonly schema: string } } };
}

function outputOf({ effort, textFormat }: OutputConfig): Fields {
  const schema = textFormat && JSON.parse(textFormat.structure.jsonSchema.schema);
  return { ...(effort && { effort }), ...(schema && { format: { type: 'json_schema', schema } }) };
}

interface ToolSpec {
  readonly name: string;
  readonly description?: string;
  readonly inputSchema: { readonly json: unknown };
}

function choiceOf(choice: Fields): Fields {
  const { tool } = choice as { tool?: { name: string } };
  if (tool) return { type: 'tool', name: tool.name };
  return { type: 'any' in choice ? 'any' : 'auto' };
}

const IMAGES: Readonly<Record<string, string>> = {
  png: 'image/png',
  jpeg: 'image/jpeg',
  gif: 'image/gif',
  webp: 'image/webp',
};

function blockOf(block: Fields): Fields {
  const { text, image, document, toolUse, toolResult, reasoningContent } = block as {
    text?: string;
    image?: { format: string; source: { bytes: string } };
    document?: { format: string; name: string; source: { bytes: string } };
    toolUse?: { toolUseId: string; name: string; input: unknown };
    toolResult?: { toolUseId: string; content: Fields[]; status?: string };
    reasoningContent?: { reasoningText?: { text: string; signature: string }; redactedContent?: string };
  };
  if (image) {
    const source = { type: 'base64', media_type: IMAGES[image.format], data: image.source.bytes };
    return { type: 'image', source };
  }
  if (document) {
    const data = document.source.bytes;
    const source =
      document.format === 'pdf'
        ? { type: 'base64', media_type: 'application/pdf', data }
        : { type: 'text', media_type: 'text/plain', data: Buffer.from(data, 'base64').toString('utf8') };
    return { type: 'document', title: document.name, source };
  }
  if (toolUse) return { type: 'tool_use', id: toolUse.toolUseId, name: toolUse.name, input: toolUse.input };
  if (toolResult) {
    const { toolUseId, content, status } = toolResult;
    return {
      type: 'tool_result',
      tool_use_id: toolUseId,
      content: content.map(blockOf),
      ...(status === 'error' && { is_error: true }),
    };
  }
  if (reasoningContent?.reasoningText) {
    const { text: thinking, signature } = reasoningContent.reasoningText;
    return { type: 'thinking', thinking, signature };
  }
  if (reasoningContent) return { type: 'redacted_thinking', data: reasoningContent.redactedContent };
  return { type: 'text', text };
}

interface Answered {
  readonly content: readonly {
    readonly type: string;
    readonly text?: string;
    readonly thinking?: string;
    readonly signature?: string;
    readonly id?: string;
    readonly name?: string;
    readonly input?: unknown;
  }[];
  readonly stop_reason: string;
  readonly usage: Readonly<Record<string, number | null | undefined>>;
}

/** The vendor's message as Converse answers it. */
export function converseAnswer({ content, stop_reason, usage }: Answered): object {
  return {
    output: { message: { role: 'assistant', content: content.map(converseBlock) } },
    stopReason: stop_reason,
    usage: usageOf(usage),
    metrics: { latencyMs: 7 },
  };
}

function converseBlock({
  type,
  text,
  thinking,
  signature,
  id,
  name,
  input,
}: Answered['content'][number]): object {
  if (type === 'tool_use') return { toolUse: { toolUseId: id, name, input } };
  if (type === 'thinking') return { reasoningContent: { reasoningText: { text: thinking, signature } } };
  return { text };
}

function usageOf({
  input_tokens,
  output_tokens,
  cache_read_input_tokens,
  cache_creation_input_tokens,
}: Answered['usage']) {
  const [inputTokens, outputTokens] = [input_tokens ?? 0, output_tokens ?? 0];
  const [read, written] = [cache_read_input_tokens ?? 0, cache_creation_input_tokens ?? 0];
  return {
    inputTokens,
    outputTokens,
    totalTokens: inputTokens + outputTokens + read + written,
    cacheReadInputTokens: read,
    cacheWriteInputTokens: written,
  };
}

/** The same as frames of a stream. */
export function converseFrames({ content, stop_reason, usage }: Answered): Buffer[] {
  const frames = [converseFrame('messageStart', { role: 'assistant' })];
  for (const [contentBlockIndex, block] of content.entries()) {
    if (block.type === 'tool_use') {
      const start = { toolUse: { toolUseId: block.id, name: block.name } };
      frames.push(converseFrame('contentBlockStart', { contentBlockIndex, start }));
    }
    for (const delta of deltasOf(block))
      frames.push(converseFrame('contentBlockDelta', { contentBlockIndex, delta }));
    frames.push(converseFrame('contentBlockStop', { contentBlockIndex }));
  }
  frames.push(converseFrame('messageStop', { stopReason: stop_reason }));
  frames.push(converseFrame('metadata', { usage: usageOf(usage), metrics: { latencyMs: 7 } }));
  return frames;
}

function deltasOf({
  type,
  text = '',
  thinking = '',
  signature,
  input,
}: Answered['content'][number]): object[] {
  if (type === 'tool_use') return halves(JSON.stringify(input)).map((part) => ({ toolUse: { input: part } }));
  if (type !== 'thinking') return halves(text).map((part) => ({ text: part }));
  return [
    ...halves(thinking).map((part) => ({ reasoningContent: { text: part } })),
    { reasoningContent: { signature } },
  ];
}

function halves(text: string): string[] {
  const middle = Math.ceil(text.length / 2);
  return [text.slice(0, middle), text.slice(middle)];
}

function converseFrame(type: string, payload: object): Buffer {
  const headers = { ':event-type': type, ':content-type': 'application/json', ':message-type': 'event' };
  // The padding hides the length of a token from who sees the wire.
  return eventFrame(headers, JSON.stringify({ ...payload, p: 'abcdefgh' }));
}
