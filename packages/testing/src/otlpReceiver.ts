import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';

/** A span as a collector receives it. Ids are hexadecimal. */
export interface ReceivedSpan {
  readonly service: string;
  readonly name: string;
  /** 1 internal, 2 server, 3 client, 4 producer, 5 consumer. */
  readonly kind: number;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly traceState: string;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
  /** 0 unset, 2 error. */
  readonly status: number;
}

/** A trace collector over OTLP/HTTP. */
export interface OtlpReceiver {
  readonly url: string;
  readonly spans: readonly ReceivedSpan[];
  /** The bodies of all accepted requests. */
  readonly raw: readonly Buffer[];
  readonly headers: readonly IncomingHttpHeaders[];
  /** The status of the next responses. */
  status: number;
  close(): Promise<void>;
}

export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const spans: ReceivedSpan[] = [];
  const raw: Buffer[] = [];
  const headers: IncomingHttpHeaders[] = [];
  const receiver = { url: '', spans, raw, headers, status: 200, close: async () => {} };
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    if (receiver.status === 200 && request.url === '/v1/traces') {
      raw.push(body);
      headers.push(request.headers);
      spans.push(...spansOf(body));
    }
    response.writeHead(request.url === '/v1/traces' ? receiver.status : 404).end();
  });
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
  receiver.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  receiver.close = () =>
    new Promise((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  return receiver;
}

// https://github.com/open-telemetry/opentelemetry-proto: trace.proto, resource.proto, common.proto.

/** The raw values of a message's fields, by field number. */
type Fields = Map<number, unknown[]>;

function fieldsOf(bytes: Uint8Array): Fields {
  const reader = new BinaryReader(bytes);
  const fields: Fields = new Map();
  while (reader.pos < reader.len) {
    const [number, type] = reader.tag();
    const value =
      type === WireType.LengthDelimited
        ? reader.bytes()
        : type === WireType.Bit64
          ? reader.fixed64()
          : type === WireType.Bit32
            ? reader.fixed32()
            : reader.int64();
    fields.set(number, [...(fields.get(number) ?? []), value]);
  }
  return fields;
}

const messages = (fields: Fields, number: number): Fields[] =>
  (fields.get(number) ?? []).map((bytes) => fieldsOf(bytes as Uint8Array));
const bytesOf = (fields: Fields, number: number) =>
  Buffer.from((fields.get(number)?.[0] as Uint8Array | undefined) ?? []);
const textOf = (fields: Fields, number: number) => bytesOf(fields, number).toString();
const hexOf = (fields: Fields, number: number) => bytesOf(fields, number).toString('hex');
const numberOf = (fields: Fields, number: number) => Number(fields.get(number)?.[0] ?? 0);

function spansOf(request: Buffer): ReceivedSpan[] {
  return messages(fieldsOf(request), 1).flatMap((resourceSpans) => {
    const [resource] = messages(resourceSpans, 1);
    const service = resource ? String(attributesOf(resource, 1)['service.name']) : '';
    return messages(resourceSpans, 2).flatMap((scope) =>
      messages(scope, 2).map((span) => read(service, span)),
    );
  });
}

function read(service: string, span: Fields): ReceivedSpan {
  const [status] = messages(span, 15);
  return {
    service,
    name: textOf(span, 5),
    kind: numberOf(span, 6),
    traceId: hexOf(span, 1),
    spanId: hexOf(span, 2),
    traceState: textOf(span, 3),
    parentSpanId: hexOf(span, 4),
    attributes: attributesOf(span, 9),
    links: messages(span, 13).map((link) => ({ traceId: hexOf(link, 1), spanId: hexOf(link, 2) })),
    status: status ? numberOf(status, 3) : 0,
  };
}

function attributesOf(fields: Fields, number: number): Record<string, unknown> {
  return Object.fromEntries(
    messages(fields, number).map((pair) => [textOf(pair, 1), anyValue(messages(pair, 2)[0])] as const),
  );
}

function anyValue(value: Fields | undefined): unknown {
  if (!value) return undefined;
  const [number] = value.keys();
  switch (number) {
    case 1:
      return textOf(value, 1);
    case 2:
      return numberOf(value, 2) === 1;
    case 3:
      return numberOf(value, 3);
    case 4: {
      const bytes = Buffer.alloc(8);
      bytes.writeBigUInt64LE(BigInt(value.get(4)?.[0] as bigint));
      return bytes.readDoubleLE();
    }
    case 5:
      return messages(messages(value, 5)[0] ?? new Map(), 1).map(anyValue);
    default:
      return undefined;
  }
}
