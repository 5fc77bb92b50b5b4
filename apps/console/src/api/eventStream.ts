/** What a chunk of a streamed chat completion says. */
export interface ChatChunk {
  readonly text: string;
  readonly usage?: { readonly input: number; readonly output: number };
  readonly error?: string;
}

/** Reads the chunks of a streamed chat completion as they come. */
export async function* chatChunks(body: ReadableStream<Uint8Array>): AsyncGenerator<ChatChunk> {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    rest += decoder.decode(value, { stream: !done });
    const lines = rest.split('\n');
    rest = done ? '' : (lines.pop() ?? '');
    for (const line of lines) {
      const data = line.startsWith('data:') ? line.slice(5).trim() : '';
      if (data !== '' && data !== '[DONE]') yield chunkOf(data);
    }
    if (done) return;
  }
}

function chunkOf(data: string): ChatChunk {
  try {
    const { choices, usage, error } = JSON.parse(data);
    return {
      text: choices?.[0]?.delta?.content ?? '',
      ...(usage && { usage: { input: usage.prompt_tokens, output: usage.completion_tokens } }),
      ...(error && { error: String(error.message) }),
    };
  } catch {
    return { text: '', error: 'The answer ended within a chunk.' };
  }
}
