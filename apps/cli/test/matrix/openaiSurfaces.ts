import OpenAI from 'openai';
import {
  type Answered,
  type Asking,
  MAX_TOKENS,
  PIXEL,
  type Service,
  type Surface,
  WEIGH,
} from './surface.ts';

const clientOf = ({ url, key }: Service) =>
  new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0, timeout: 20_000 });
const statusOf = (error: unknown) => (error instanceof OpenAI.APIError ? error.status : undefined);
const imageUrl = `data:image/png;base64,${PIXEL}`;

export function chatSurface(service: Service): Surface {
  const client = clientOf(service);
  return {
    name: 'chat completions',
    sdk: 'openai',
    statusOf,
    say: (text, image) => ({
      role: 'user',
      content: image
        ? [
            { type: 'text', text },
            { type: 'image_url', image_url: { url: imageUrl } },
          ]
        : text,
    }),
    results: (calls, content) => calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content })),
    async ask({ model, turns, stream, tools, format, thinks, signal, onPiece }: Asking): Promise<Answered> {
      const body: OpenAI.ChatCompletionCreateParamsNonStreaming = {
        model,
        messages: turns as OpenAI.ChatCompletionMessageParam[],
        max_completion_tokens: MAX_TOKENS,
        ...(tools && { tools: [{ type: 'function', function: WEIGH }] }),
        ...(thinks && { reasoning_effort: 'low' }),
        ...(format && {
          response_format: {
            type: 'json_schema',
            json_schema: { name: 'weight', schema: format as Record<string, unknown>, strict: true },
          },
        }),
      };
      const options = signal ? { signal } : {};
      let completion: OpenAI.ChatCompletion;
      if (stream) {
        // Mistral refuses them, and reports its usage unasked.
        const asksUsage = !model.startsWith('mistral/');
        const events = client.chat.completions.stream(
          { ...body, stream: true, ...(asksUsage && { stream_options: { include_usage: true } }) },
          options,
        );
        events.on('content', () => onPiece?.());
        completion = await events.finalChatCompletion();
      } else completion = await client.chat.completions.create(body, options);
      const message = completion.choices[0]?.message;
      const { usage } = completion;
      return {
        text: message?.content ?? '',
        calls: (message?.tool_calls ?? []).flatMap((call) =>
          call.type === 'function'
            ? [{ id: call.id, name: call.function.name, input: JSON.parse(call.function.arguments) }]
            : [],
        ),
        cited: (message?.annotations ?? []).map(({ url_citation: { url, title } }) => ({ url, title })),
        turns: [sentBack(message)],
        usage: { input: usage?.prompt_tokens ?? -1, output: usage?.completion_tokens ?? -1 },
      };
    },
  };
}

/** Of a message, what requests have too: the SDK adds what it has parsed, and vendors refuse that. */
function sentBack(message: OpenAI.ChatCompletionMessage | undefined): object {
  const { role, content, tool_calls: calls } = message ?? { role: 'assistant', content: null };
  if (!calls?.length) return { role, content };
  const made = calls.map((call) => {
    if (call.type !== 'function') return call;
    const { parsed_arguments: _, ...rest } = call.function as typeof call.function & {
      parsed_arguments?: unknown;
    };
    const { index: __, ...sent } = call as typeof call & { index?: number };
    return { ...sent, function: rest };
  });
  return { role, content, tool_calls: made };
}

export function responsesSurface(service: Service): Surface {
  const client = clientOf(service);
  return {
    name: 'responses',
    sdk: 'openai',
    statusOf,
    say: (text, image) => ({
      role: 'user',
      content: image
        ? [
            { type: 'input_text', text },
            { type: 'input_image', image_url: imageUrl, detail: 'auto' },
          ]
        : text,
    }),
    results: (calls, output) =>
      calls.map(({ id }) => ({ type: 'function_call_output', call_id: id, output })),
    async ask({ model, turns, stream, tools, format, thinks, signal, onPiece }: Asking): Promise<Answered> {
      const schema = format as Record<string, unknown>;
      const body: OpenAI.Responses.ResponseCreateParamsNonStreaming = {
        model,
        input: turns as OpenAI.Responses.ResponseInputItem[],
        max_output_tokens: MAX_TOKENS,
        store: false,
        include: ['reasoning.encrypted_content'],
        ...(tools && { tools: [{ type: 'function', ...WEIGH, strict: false }] }),
        ...(thinks && { reasoning: { effort: 'low' } }),
        ...(format && { text: { format: { type: 'json_schema', name: 'weight', schema, strict: true } } }),
      };
      const options = signal ? { signal } : {};
      let response: OpenAI.Responses.Response;
      if (stream) {
        const events = client.responses.stream({ ...body, stream: true }, options);
        events.on('response.output_text.delta', () => onPiece?.());
        response = await events.finalResponse();
      } else response = await client.responses.create(body, options);
      const { output, usage } = response;
      return {
        text: output
          .flatMap((item) => (item.type === 'message' ? item.content : []))
          .map((part) => (part.type === 'output_text' ? part.text : ''))
          .join(''),
        calls: output.flatMap((item) =>
          item.type === 'function_call'
            ? [{ id: item.call_id, name: item.name, input: JSON.parse(item.arguments) }]
            : [],
        ),
        cited: output
          .flatMap((item) => (item.type === 'message' ? item.content : []))
          .flatMap((part) => (part.type === 'output_text' ? part.annotations : []))
          .flatMap((one) => (one.type === 'url_citation' ? [{ url: one.url, title: one.title }] : [])),
        turns: output.map(withoutParsed),
        usage: { input: usage?.input_tokens ?? -1, output: usage?.output_tokens ?? -1 },
      };
    },
  };
}

/** The SDK adds what it has parsed to items and to their parts. */
function withoutParsed(item: OpenAI.Responses.ResponseOutputItem): object {
  const { parsed_arguments: _, ...rest } = item as typeof item & { parsed_arguments?: unknown };
  if (rest.type !== 'message') return rest;
  const content = rest.content.map((part) => {
    const { parsed: __, ...sent } = part as typeof part & { parsed?: unknown };
    return sent;
  });
  return { ...rest, content };
}
