import Anthropic from '@anthropic-ai/sdk';
import {
  ApiError,
  type GenerateContentConfig,
  type GenerateContentResponse,
  GoogleGenAI,
} from '@google/genai';
import {
  type Answered,
  type Asking,
  MAX_TOKENS,
  PIXEL,
  type Service,
  type Surface,
  WEIGH,
} from './surface.ts';

export function messagesSurface({ url, key }: Service): Surface {
  const client = new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0, timeout: 20_000 });
  return {
    name: 'messages',
    sdk: '@anthropic-ai/sdk',
    statusOf: (error) => (error instanceof Anthropic.APIError ? error.status : undefined),
    say: (text, image) => ({
      role: 'user',
      content: image
        ? [
            { type: 'text', text },
            { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PIXEL } },
          ]
        : text,
    }),
    results: (calls, content) => [
      { role: 'user', content: calls.map(({ id }) => ({ type: 'tool_result', tool_use_id: id, content })) },
    ],
    async ask({ model, turns, stream, tools, format, thinks, signal, onPiece }: Asking): Promise<Answered> {
      const { parameters, ...named } = WEIGH;
      const body: Anthropic.MessageCreateParamsNonStreaming = {
        model,
        max_tokens: MAX_TOKENS,
        messages: turns as Anthropic.MessageParam[],
        ...(tools && { tools: [{ ...named, input_schema: { ...parameters, required: ['truck'] } }] }),
        ...(thinks && { thinking: { type: 'enabled', budget_tokens: 2_000 } }),
        ...(format && { output_config: { format: { type: 'json_schema', schema: { ...format } } } }),
      };
      const options = signal ? { signal } : {};
      const message = stream
        ? await client.messages
            .stream(body, options)
            .on('text', () => onPiece?.())
            .finalMessage()
        : await client.messages.create(body, options);
      const { content, usage } = message;
      return {
        text: content.map((block) => (block.type === 'text' ? block.text : '')).join(''),
        calls: content.flatMap((block) =>
          block.type === 'tool_use' ? [{ id: block.id, name: block.name, input: block.input }] : [],
        ),
        cited: content
          .flatMap((block) => (block.type === 'text' ? (block.citations ?? []) : []))
          .flatMap((one) =>
            one.type === 'web_search_result_location' ? [{ url: one.url, title: one.title }] : [],
          ),
        turns: [{ role: 'assistant', content: content.map(withoutParsed) }],
        usage: {
          input:
            usage.input_tokens +
            (usage.cache_read_input_tokens ?? 0) +
            (usage.cache_creation_input_tokens ?? 0),
          output: usage.output_tokens,
        },
      };
    },
  };
}

function withoutParsed(block: Anthropic.ContentBlock): object {
  const { parsed_output: _, ...rest } = block as typeof block & { parsed_output?: unknown };
  return rest;
}

export function generateContentSurface({ url, key }: Service): Surface {
  const client = new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl: url, timeout: 20_000 } });
  return {
    name: 'generateContent',
    sdk: '@google/genai',
    statusOf: (error) => (error instanceof ApiError ? error.status : undefined),
    say: (text, image) => ({
      role: 'user',
      parts: [{ text }, ...(image ? [{ inlineData: { mimeType: 'image/png', data: PIXEL } }] : [])],
    }),
    results: (calls, output) => [
      {
        role: 'user',
        parts: calls.map(({ id, name }) => ({ functionResponse: { id, name, response: { output } } })),
      },
    ],
    async ask({ model, turns, stream, tools, format, thinks, signal, onPiece }: Asking): Promise<Answered> {
      const { parameters, ...named } = WEIGH;
      const config: GenerateContentConfig = {
        maxOutputTokens: MAX_TOKENS,
        ...(tools && { tools: [{ functionDeclarations: [{ ...named, parametersJsonSchema: parameters }] }] }),
        ...(thinks && { thinkingConfig: { includeThoughts: true, thinkingBudget: 2_000 } }),
        ...(format && { responseMimeType: 'application/json', responseJsonSchema: format }),
        ...(signal && { abortSignal: signal }),
      };
      const asked = { model, contents: turns as never, config };
      const chunks: GenerateContentResponse[] = [];
      if (stream) {
        for await (const chunk of await client.models.generateContentStream(asked)) {
          chunks.push(chunk);
          onPiece?.();
        }
      } else chunks.push(await client.models.generateContent(asked));
      const parts = chunks.flatMap((chunk) => chunk.candidates?.[0]?.content?.parts ?? []);
      const usage = chunks.findLast((chunk) => chunk.usageMetadata)?.usageMetadata;
      return {
        text: parts.map((part) => (part.thought ? '' : (part.text ?? ''))).join(''),
        calls: parts.flatMap(({ functionCall: call }) =>
          call ? [{ id: call.id ?? '', name: call.name ?? '', input: call.args }] : [],
        ),
        cited: chunks
          .flatMap((chunk) => chunk.candidates?.[0]?.groundingMetadata?.groundingChunks ?? [])
          .map(({ web }) => ({ url: web?.uri, title: web?.title })),
        turns: [{ role: 'model', parts }],
        usage: {
          input: usage?.promptTokenCount ?? -1,
          output: (usage?.candidatesTokenCount ?? 0) + (usage?.thoughtsTokenCount ?? 0),
        },
      };
    },
  };
}
