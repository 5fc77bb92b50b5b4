import type { TokenUsage } from '@weighbridge/domain';
import { AnswerCitations } from './citations/answerCitations.ts';
import type { Format, TargetFormat } from './format.ts';
import { TARGETS, TRANSLATORS } from './formats.ts';
import type { AnswerContext } from './ir/answer.ts';
import type { StreamEvent, StreamReader, StreamWriter, VendorError } from './ir/event.ts';
import { EventOrder } from './ir/eventOrder.ts';
import { AnswerFold } from './ir/fold.ts';
import { writeJson } from './json/writeJson.ts';
import { beginning } from './loss/beginning.ts';
import { AnswerTools } from './tools/answerTools.ts';
import { CallIds } from './tools/callIds.ts';
import type { AnswerPlan } from './translateRequest.ts';
import { type SealScope, sealOpaque } from './wire/seal.ts';
import { eventData } from './wire/sseSplitter.ts';

/** More names of unknown events are counted as one. */
const MAX_UNKNOWN = 32;
const MAX_NAME_LENGTH = 64;

export interface AnswerOptions {
  readonly plan: AnswerPlan;
  readonly scope: SealScope;
  /** The account that answers: opaque values return to it only. */
  readonly account: string;
  /** The model as the caller named it. */
  readonly model: string;
  /** A new id; the caller's dialect puts its prefix before it. */
  readonly id: string;
  /** Seconds since 1970. */
  readonly created: number;
  /** The answer can be continued by its id, since the service stores it. Default: it can't. */
  readonly isStored?: boolean;
  /** The id of the response that the caller continues, if any. */
  readonly previousId?: string | undefined;
  /** What the reader that meters the vendor's bytes has seen so far. It is asked after that reader had the event. */
  readonly usage: () => TokenUsage | undefined;
}

/** What the translators of an answer share: the events that reach its writer. */
class AnswerEvents {
  readonly context: AnswerContext;
  readonly #order = new EventOrder();
  readonly #callIds: CallIds;
  readonly #tools: AnswerTools;
  readonly #citations: AnswerCitations;
  readonly #unknown = new Map<string, number>();
  #error: VendorError | undefined;

  constructor({
    plan,
    scope,
    account,
    model,
    id,
    created,
    isStored = false,
    previousId,
    usage,
  }: AnswerOptions) {
    this.#callIds = new CallIds(id);
    this.#tools = new AnswerTools(plan.changes);
    this.#citations = new AnswerCitations(TRANSLATORS[plan.to].citations);
    this.context = {
      model,
      id,
      created,
      usage,
      wantsUsage: plan.wantsUsage,
      namespaces: plan.namespaces,
      ownForms: plan.ownForms,
      repeated: plan.repeated,
      isStored,
      previousId,
      seal: (opaque, text) => sealOpaque(scope, account, opaque, text),
    };
  }

  /** What another dialect has no words for, and how often it came. */
  get unknown(): ReadonlyMap<string, number> {
    return this.#unknown;
  }

  get error(): VendorError | undefined {
    return this.#error;
  }

  get isOver(): boolean {
    return this.#order.isOver;
  }

  forEach(events: readonly StreamEvent[], use: (event: StreamEvent) => void): void {
    for (const event of events) {
      for (const ordered of this.#order.push(event)) {
        if (ordered.type === 'error') this.#error = ordered.error;
        const named = ordered.type === 'open' ? this.#callIds.push(ordered) : ordered;
        for (const told of this.#tools.push(named)) this.#tell(told, use);
      }
    }
  }

  #tell(event: StreamEvent, use: (event: StreamEvent) => void): void {
    for (const told of this.#citations.push(event)) {
      if (told.type === 'unknown') this.#count(told.name);
      use(told);
    }
  }

  #count(name: string): void {
    const known = this.#unknown.has(name) || this.#unknown.size < MAX_UNKNOWN;
    const key = known ? beginning(name, MAX_NAME_LENGTH) : 'other';
    this.#unknown.set(key, (this.#unknown.get(key) ?? 0) + 1);
  }
}

/** Translates a streamed answer, event by event. */
export class StreamTranslator {
  readonly #events: AnswerEvents;
  readonly #reader: StreamReader;
  readonly #writer: StreamWriter;

  constructor(options: AnswerOptions) {
    const { plan } = options;
    this.#events = new AnswerEvents(options);
    this.#reader = TARGETS[plan.from].streamReader();
    this.#writer = TRANSLATORS[plan.to].streamWriter(this.#events.context);
  }

  get unknown(): ReadonlyMap<string, number> {
    return this.#events.unknown;
  }

  /** What the vendor reported as an error, or that the stream was cut. */
  get error(): VendorError | undefined {
    return this.#events.error;
  }

  /** The JSON of the whole answer, once it has ended well, in formats that repeat it then. */
  get answer(): string | undefined {
    return this.#writer.answer;
  }

  /** The last event for the caller has been written. */
  get isOver(): boolean {
    return this.#events.isOver;
  }

  /** What waits for its turn, of blocks that interleave. */
  get heldBytes(): number {
    return this.#writer.heldBytes ?? 0;
  }

  /** The text for the caller that an event of the vendor's, as `SseSplitter` returns it, amounts to. */
  push(event: Buffer): string {
    const data = eventData(event);
    return data ? this.pushData(data.toString('utf8')) : '';
  }

  /** The same, from the event's data. */
  pushData(data: string): string {
    return this.#write(this.#reader.push(data));
  }

  /** The last text for the caller, after the vendor's last byte. A stream that was cut ends with an error. */
  end(): string {
    return this.#write(this.#reader.end());
  }

  /** Ends the stream with an error, such as that of a connection. */
  fail(error: VendorError): string {
    return this.#write([{ type: 'error', error }]);
  }

  #write(events: readonly StreamEvent[]): string {
    let text = '';
    this.#events.forEach(events, (event) => {
      text += this.#writer.write(event);
    });
    return text;
  }
}

export interface TranslatedAnswer {
  readonly status: number;
  readonly body: string;
  readonly unknown: ReadonlyMap<string, number>;
  /** Set if the answer is an error. */
  readonly error: VendorError | undefined;
}

/** Translates an answer that is one JSON document. */
export function translateDocument(body: string, options: AnswerOptions): TranslatedAnswer {
  return fold(TARGETS[options.plan.from].readAnswer(body), options);
}

/** Puts a streamed answer together, for a caller that did not ask for a stream. */
export class StreamFolder {
  readonly #events: AnswerEvents;
  readonly #reader: StreamReader;
  readonly #fold = new AnswerFold();
  readonly #to: Format;

  constructor(options: AnswerOptions) {
    this.#events = new AnswerEvents(options);
    this.#reader = TARGETS[options.plan.from].streamReader();
    this.#to = options.plan.to;
  }

  push(event: Buffer): void {
    const data = eventData(event);
    if (data) this.#add(this.#reader.push(data.toString('utf8')));
  }

  end(): TranslatedAnswer {
    this.#add(this.#reader.end());
    return folded(this.#fold, this.#events, this.#to);
  }

  #add(events: readonly StreamEvent[]): void {
    this.#events.forEach(events, (event) => this.#fold.push(event));
  }
}

function fold(read: readonly StreamEvent[], options: AnswerOptions): TranslatedAnswer {
  const events = new AnswerEvents(options);
  const answer = new AnswerFold();
  events.forEach(read, (event) => answer.push(event));
  return folded(answer, events, options.plan.to);
}

function folded(fold: AnswerFold, events: AnswerEvents, to: Format): TranslatedAnswer {
  const { unknown, error, context } = events;
  const translator = TRANSLATORS[to];
  if (error)
    return { status: error.status, body: JSON.stringify(translator.writeError(error)), unknown, error };
  return { status: 200, body: writeJson(translator.fold(fold.answer, context)), unknown, error };
}

/** An error of a vendor in the caller's dialect: with the vendor's message and status. */
export function translateError(body: string, status: number, from: TargetFormat, to: Format): string {
  const { readError } = TARGETS[from];
  return JSON.stringify(TRANSLATORS[to].writeError(readError(body, status)));
}
