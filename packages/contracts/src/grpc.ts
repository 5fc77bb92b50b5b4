import {
  create,
  type DescMessage,
  type DescMethod,
  type DescMethodBiDiStreaming,
  type DescMethodUnary,
  type DescService,
  fromBinary,
  type Message,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import {
  type Client,
  type ClientDuplexStream,
  Metadata,
  type MethodDefinition,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type ServiceDefinition,
  type sendUnaryData,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js';
import { toGrpcError } from '@weighbridge/errors';
import { signCall } from './callSignature/callSignature.ts';
import { canNameProducers } from './callSignature/namedProducers.ts';
import type { ProducerKey } from './producerKey.ts';

/** The handlers of a service's methods. An AppError thrown by a unary handler becomes its gRPC status. */
export type Handlers<S extends DescService> = {
  [K in keyof S['method']]: S['method'][K] extends DescMethodUnary<infer I, infer O>
    ? (request: MessageShape<I>) => Promise<MessageInitShape<O>>
    : S['method'][K] extends DescMethodBiDiStreaming<infer I, infer O>
      ? (stream: ServerDuplexStream<MessageShape<I>, MessageShape<O>>) => void
      : never;
};

/** Wraps the handler of each unary call, for instance to trace it. Has to return what `run` resolves to. */
export type AroundCall = <Response>(
  method: string,
  metadata: Metadata,
  run: () => Promise<Response>,
) => Promise<Response>;

export interface Service {
  readonly definition: ServiceDefinition;
  readonly implementation: UntypedServiceImplementation;
}

export interface ServiceOptions {
  readonly onError: (error: unknown) => void;
  readonly around?: AroundCall;
  /** Called before the handler of each unary call; rejects to refuse it. */
  readonly authorize?: (call: IncomingCall) => Promise<void>;
}

/** A request as it arrived. */
export interface IncomingCall {
  readonly method: DescMethod;
  readonly metadata: Metadata;
  readonly request: Message;
}

const encoded = new WeakMap<object, Uint8Array>();

/** The bytes that a message of a proxy arrived as. */
export function encodedRequest(request: Message): Uint8Array {
  return encoded.get(request) ?? new Uint8Array();
}

/** The path of a method, as its calls have it. */
export function pathOf({ parent, name }: DescMethod): string {
  return `/${parent.typeName}/${name}`;
}

/** Adapts the handlers of a generated service to grpc-js. */
export function grpcService<S extends DescService>(
  service: S,
  handlers: Handlers<S>,
  options: ServiceOptions,
): Service {
  const definition: Record<string, MethodDefinition<unknown, unknown>> = {};
  const implementation: UntypedServiceImplementation = {};
  for (const method of service.methods) {
    const handler = handlers[method.localName as keyof S['method']] as (argument: unknown) => unknown;
    definition[method.localName] = methodDefinition(method);
    implementation[method.localName] =
      method.methodKind === 'unary'
        ? unaryHandler(method, handler, options)
        : (call: ServerDuplexStream<unknown, unknown>) => {
            try {
              handler(call);
            } catch (error) {
              options.onError(error);
              call.emit('error', toGrpcError(error));
            }
          };
  }
  return { definition, implementation };
}

/** The span of a call. */
export interface CallTrace {
  /** Sent as metadata. */
  readonly headers: object;
  end(error: Error | null): void;
}

export interface CallOptions {
  readonly timeoutMs: number;
  readonly metadata: Metadata;
  readonly trace?: ((method: string) => CallTrace) | undefined;
  /** Signs the call: the key of the producer that it names. */
  readonly key?: Pick<ProducerKey, 'publicKey' | 'privateKey'> | undefined;
}

/** Calls a unary method. Rejects with grpc-js's ServiceError, also after `timeoutMs`. */
export function callUnary<I extends DescMessage, O extends DescMessage>(
  client: Client,
  method: DescMethodUnary<I, O>,
  request: MessageInitShape<I>,
  options: CallOptions,
): Promise<MessageShape<O>> {
  const { path, responseDeserialize } = methodDefinition(method);
  const bytes = Buffer.from(toBinary(method.input, create(method.input, request)));
  const trace = options.trace?.(method.localName);
  const metadata = trace || options.key ? options.metadata.clone() : options.metadata;
  if (options.key) signCall(metadata, path, bytes, options.key);
  for (const [name, value] of Object.entries(trace?.headers ?? {})) metadata.set(name, value);
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(
      path,
      asItIs,
      responseDeserialize,
      bytes,
      metadata,
      { deadline: Date.now() + options.timeoutMs },
      (error, response) => {
        trace?.end(error);
        if (error) reject(error);
        else resolve(response as MessageShape<O>);
      },
    );
  });
}

export function openBidi<I extends DescMessage, O extends DescMessage>(
  client: Client,
  method: DescMethodBiDiStreaming<I, O>,
  metadata: Metadata,
): ClientDuplexStream<MessageShape<I>, MessageShape<O>> {
  const { path, requestSerialize, responseDeserialize } = methodDefinition(method);
  return client.makeBidiStreamRequest(
    path,
    requestSerialize,
    responseDeserialize,
    metadata,
  ) as ClientDuplexStream<MessageShape<I>, MessageShape<O>>;
}

/** Metadata with the apps' shared token, if there is one. */
export function tokenMetadata(token: string | undefined): Metadata {
  const metadata = new Metadata();
  if (token) metadata.set('authorization', `Bearer ${token}`);
  return metadata;
}

function unaryHandler(
  method: DescMethod,
  handler: (request: unknown) => unknown,
  { onError, authorize, around = (_method, _metadata, run) => run() }: ServiceOptions,
) {
  return async (call: ServerUnaryCall<unknown, unknown>, callback: sendUnaryData<unknown>): Promise<void> => {
    try {
      const response = await around(method.localName, call.metadata, async () => {
        await authorize?.({ method, metadata: call.metadata, request: call.request as Message });
        return await handler(call.request);
      });
      callback(null, create(method.output, response as MessageInitShape<DescMessage>));
    } catch (error) {
      onError(error);
      callback(toGrpcError(error));
    }
  };
}

/** A request that is encoded already. */
function asItIs(bytes: Buffer): Buffer {
  return bytes;
}

function methodDefinition(method: DescMethod): MethodDefinition<unknown, unknown> {
  const serialize = (schema: DescMessage) => (message: unknown) =>
    Buffer.from(toBinary(schema, message as MessageShape<DescMessage>));
  const deserialize = (schema: DescMessage) => (bytes: Buffer) => {
    const message = fromBinary(schema, bytes);
    if (schema === method.input && canNameProducers(schema)) encoded.set(message, bytes);
    return message;
  };
  return {
    path: pathOf(method),
    requestStream: method.methodKind === 'client_streaming' || method.methodKind === 'bidi_streaming',
    responseStream: method.methodKind === 'server_streaming' || method.methodKind === 'bidi_streaming',
    requestSerialize: serialize(method.input),
    requestDeserialize: deserialize(method.input),
    responseSerialize: serialize(method.output),
    responseDeserialize: deserialize(method.output),
  };
}
