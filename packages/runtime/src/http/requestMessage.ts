import { IncomingMessage } from 'node:http';

/** Who reads a body as it arrives. */
export interface BodyReader {
  add(chunk: Buffer): void;
  end(): void;
}

/**
 * A request whose body can skip Node's stream: a reader gets each chunk as soon as the parser has it. For a short body, the stream's
 * listeners and ticks are most of the work.
 */
export class RequestMessage extends IncomingMessage {
  bodyReader: BodyReader | undefined = undefined;

  /**
   * Passes all of the body to `reader`, and none to the stream. False if a part of it is there already: then it is read as any
   * stream. If the client disconnects before the end, `close` is emitted.
   */
  readBodyBy(reader: BodyReader): boolean {
    if (this.complete || this.destroyed || this.readableLength > 0) return false;
    this.bodyReader = reader;
    // Marks the body as wanted: otherwise Node would discard it through the stream after the response.
    this.read(0);
    return true;
  }

  /** Called by the parser with each part of the body, and with null after the last one. */
  override push(chunk: unknown, encoding?: BufferEncoding): boolean {
    const reader = this.bodyReader;
    if (!reader) return super.push(chunk, encoding);
    if (chunk === null) reader.end();
    else reader.add(chunk as Buffer);
    return true;
  }
}

// By Node's types a property, which no accessor may override; Node defines an accessor.
const ofStream = Object.getOwnPropertyDescriptor(
  Object.getPrototypeOf(IncomingMessage.prototype),
  'readableEnded',
);
Object.defineProperty(RequestMessage.prototype, 'readableEnded', {
  configurable: true,
  get(this: RequestMessage): boolean {
    return this.bodyReader ? this.complete : ofStream?.get?.call(this);
  },
});
