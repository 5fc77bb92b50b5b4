import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import type { Client, Metadata } from '@grpc/grpc-js';
import {
  type ConnectorTestedSchema,
  ControlService,
  type HelloSchema,
  openBidi,
  type ProducerKey,
  type ProxyStatusSchema,
  pathOf,
  signCall,
  type WatchRequest,
  WatchRequestSchema,
  type WatchResponse,
} from '@weighbridge/contracts';

export interface WatchStreamDeps {
  readonly client: Client;
  readonly metadata: Metadata;
  readonly hello: MessageInitShape<typeof HelloSchema>;
  /** Signs the hello. */
  readonly key: ProducerKey | undefined;
  readonly status: (options?: { readonly isLast: boolean }) => MessageInitShape<typeof ProxyStatusSchema>;
  /** `helloAtMs` is when the stream began, monotonic. Returns why the stream must end; undefined to go on. */
  readonly onMessage: (message: WatchResponse['message'], helloAtMs: number) => unknown;
}

/** Heartbeats come every second; after this silence the stream is dead, whatever the socket says. */
const SILENCE_MS = 5_000;
const STATUS_MS = 500;
/** Time for the goodbye to be sent. */
const GOODBYE_MS = 50;

/** One Watch stream: hello, then status reports and the control plane's messages, until it ends. */
export class WatchStream {
  readonly #deps: WatchStreamDeps;
  readonly #stream: ReturnType<typeof openWatch>;
  readonly #helloAtMs = performance.now();
  readonly #silence: NodeJS.Timeout;
  readonly #reporting: NodeJS.Timeout;
  #resolveEnded: (reason: unknown) => void = () => {};
  /** Resolves with the reason: a text, or the error of the call. */
  readonly ended = new Promise<unknown>((resolve) => {
    this.#resolveEnded = resolve;
  });

  constructor(deps: WatchStreamDeps) {
    this.#deps = deps;
    const hello = create(WatchRequestSchema, { message: { case: 'hello', value: deps.hello } });
    this.#stream = openWatch(deps, hello);
    this.#silence = setTimeout(() => this.#end('no heartbeat'), SILENCE_MS);
    this.#reporting = setInterval(() => this.#report(), STATUS_MS);
    this.#stream.on('data', ({ message }: WatchResponse) => this.#receive(message));
    this.#stream.on('error', (error) => this.#end(error));
    this.#stream.on('end', () => this.#end('the control plane ended the stream'));
    this.#stream.write(hello);
    this.#report();
  }

  /** Sends a last status, says goodbye and ends the stream. */
  close(): void {
    this.#send({ message: { case: 'status', value: this.#deps.status({ isLast: true }) } });
    this.#send({ message: { case: 'goodbye', value: {} } });
    this.#stream.end();
    setTimeout(() => this.#end('closing'), GOODBYE_MS);
  }

  /** Skipped while the stream is congested: who asked does not wait for long. */
  sendTested(value: MessageInitShape<typeof ConnectorTestedSchema>): void {
    if (!this.#stream.writableNeedDrain) this.#send({ message: { case: 'connectorTested', value } });
  }

  #receive(message: WatchResponse['message']): void {
    this.#silence.refresh();
    const endReason = this.#deps.onMessage(message, this.#helloAtMs);
    if (endReason !== undefined) this.#end(endReason);
    // The applied revision has changed.
    else if (message.case === 'snapshot' || message.case === 'delta') this.#report();
  }

  /** Skipped while the stream is congested: a later status replaces this one. */
  #report(): void {
    if (this.#stream.writableNeedDrain) return;
    this.#send({ message: { case: 'status', value: this.#deps.status() } });
  }

  #send(request: MessageInitShape<typeof WatchRequestSchema>): void {
    this.#stream.write(create(WatchRequestSchema, request));
  }

  #end(reason: unknown): void {
    clearTimeout(this.#silence);
    clearInterval(this.#reporting);
    this.#stream.cancel();
    this.#resolveEnded(reason);
  }
}

function openWatch(
  { client, metadata, key }: Pick<WatchStreamDeps, 'client' | 'metadata' | 'key'>,
  hello: WatchRequest,
) {
  const { watch } = ControlService.method;
  const signed = metadata.clone();
  if (key) signCall(signed, pathOf(watch), toBinary(WatchRequestSchema, hello), key);
  return openBidi(client, watch, signed);
}
