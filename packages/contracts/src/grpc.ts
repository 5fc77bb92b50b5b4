import {
  create,
  type DescMessage,
  type DescMethod,
  type DescMethodBiDiStreaming,
  type DescMethodUnary,
  type DescService,
  fromBinary,
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
    definition[method.localName] = methodDefinition(service, method);
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
}

/** Calls a unary method. Rejects with grpc-js's ServiceError, also after `timeoutMs`. */
export function callUnary<I extends DescMessage, O extends DescMessage>(
  client: Client,
  method: DescMethodUnary<I, O>,
  request: MessageInitShape<I>,
  options: CallOptions,
): Promise<MessageShape<O>> {
  const { path, requestSerialize, responseDeserialize } = methodDefinition(method.parent, method);
  const trace = options.trace?.(method.localName);
  const metadata = trace ? options.metadata.clone() : options.metadata;
  for (const [name, value] of Object.entries(trace?.headers ?? {})) metadata.set(name, value);
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(
      path,
      requestSerialize,
      responseDeserialize,
      create(method.input, request),
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
  const { path, requestSerialize, responseDeserialize } = methodDefinition(method.parent, method);
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
  { onError, around = (_method, _metadata, run) => run() }: ServiceOptions,
) {
  return async (call: ServerUnaryCall<unknown, unknown>, callback: sendUnaryData<unknown>): Promise<void> => {
    try {
      const response = await around(method.localName, call.metadata, async () => await handler(call.request));
      callback(null, create(method.output, response as MessageInitShape<DescMessage>));
    } catch (error) {
      onError(error);
      callback(toGrpcError(error));
    }
  };
}

function methodDefinition(service: DescService, method: DescMethod): MethodDefinition<unknown, unknown> {
  const serialize = (schema: DescMessage) => (message: unknown) =>
    Buffer.from(toBinary(schema, message as MessageShape<DescMessage>));
  const deserialize = (schema: DescMessage) => (bytes: Buffer) => fromBinary(schema, bytes);
  return {
    path: `/${service.typeName}/${method.name}`,
    requestStream: method.methodKind === 'client_streaming' || method.methodKind === 'bidi_streaming',
    responseStream: method.methodKind === 'server_streaming' || method.methodKind === 'bidi_streaming',
    requestSerialize: serialize(method.input),
    requestDeserialize: deserialize(method.input),
    responseSerialize: serialize(method.output),
    responseDeserialize: deserialize(method.output),
  };
}
