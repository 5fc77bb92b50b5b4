import type { outputItems } from './responsesBody.ts';

export type Send = (type: string, fields: object) => Promise<void>;
type Item = ReturnType<typeof outputItems>[number];

/** Streams one item of the output: a message, or a call of a tool. */
export class ItemWriter {
  /** As it is when it is whole. */
  readonly item: Item;
  readonly #index: number;
  readonly #send: Send;

  constructor(item: Item, index: number, send: Send) {
    this.item = item;
    this.#index = index;
    this.#send = send;
  }

  async open(): Promise<void> {
    const { item } = this;
    const status = 'in_progress';
    const empty =
      item.type === 'message' ? { content: [] } : 'input' in item ? { input: '' } : { arguments: '' };
    await this.#send('response.output_item.added', {
      output_index: this.#index,
      item: { ...item, status, ...empty },
    });
    if (item.type === 'message')
      await this.#send('response.content_part.added', { ...this.#part, part: EMPTY });
  }

  async write(delta: string): Promise<void> {
    const { item } = this;
    if (item.type === 'message')
      await this.#send('response.output_text.delta', { ...this.#part, delta, logprobs: [] });
    else await this.#send(`response.${this.#argument}.delta`, { ...this.#where, delta });
  }

  async close(): Promise<void> {
    const { item } = this;
    if ('content' in item) {
      const text = item.content.map((part) => part.text).join('');
      const annotations = item.content.flatMap((part) => part.annotations);
      for (const [annotation_index, annotation] of annotations.entries()) {
        const cited = { ...this.#part, annotation_index, annotation };
        await this.#send('response.output_text.annotation.added', cited);
      }
      await this.#send('response.output_text.done', { ...this.#part, text, logprobs: [] });
      await this.#send('response.content_part.done', {
        ...this.#part,
        part: { ...EMPTY, text, annotations },
      });
    } else {
      const whole = 'input' in item ? { input: item.input } : { arguments: item.arguments };
      await this.#send(`response.${this.#argument}.done`, { ...this.#where, ...whole });
    }
    await this.#send('response.output_item.done', { output_index: this.#index, item });
  }

  get #where() {
    return { item_id: this.item.id, output_index: this.#index };
  }

  get #part() {
    return { ...this.#where, content_index: 0 };
  }

  get #argument(): string {
    return 'input' in this.item ? 'custom_tool_call_input' : 'function_call_arguments';
  }
}

const EMPTY = { type: 'output_text', text: '', annotations: [], logprobs: [] };

/** Streams an item that is whole at once: the use of a vendor's tool, or reasoning with its summary. */
export async function sendItem(item: object, output_index: number, send: Send): Promise<void> {
  const { id, summary = [] } = item as { id?: string; summary?: readonly { text: string }[] };
  const isReasoning = 'summary' in item;
  const begun = isReasoning ? { ...item, summary: [] } : { ...item, status: 'in_progress' };
  await send('response.output_item.added', { output_index, item: begun });
  for (const [summary_index, part] of summary.entries()) {
    const where = { item_id: id, output_index, summary_index };
    await send('response.reasoning_summary_part.added', { ...where, part: { ...part, text: '' } });
    await send('response.reasoning_summary_text.delta', { ...where, delta: part.text });
    await send('response.reasoning_summary_text.done', { ...where, text: part.text });
    await send('response.reasoning_summary_part.done', { ...where, part });
  }
  await send('response.output_item.done', { output_index, item });
}
