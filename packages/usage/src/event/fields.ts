import { type DescField, ScalarType } from '@bufbuild/protobuf';
import {
  LimitCountsSchema,
  TokenUsageSchema,
  UsageBatchSchema,
  UsageEventSchema,
} from '@weighbridge/contracts';

// Field numbers and tags of the usage messages, computed from the generated schema when the module loads.

/** The two wire types that the usage messages use: the low three bits of a tag. */
export const VARINT = 0;
export const LENGTH_DELIMITED = 2;

interface MessageSchema {
  readonly field: Readonly<Record<string, DescField>>;
}

type Tags<S extends MessageSchema> = { readonly [Name in keyof S['field']]: number };

export const USAGE_EVENT_TAG = tagsOf(UsageEventSchema);
export const TOKEN_USAGE_TAG = tagsOf(TokenUsageSchema);
export const LIMIT_COUNTS_TAG = tagsOf(LimitCountsSchema);
export const USAGE_BATCH_TAG = tagsOf(UsageBatchSchema);

function tagsOf<S extends MessageSchema>({ field }: S): Tags<S> {
  const tags = Object.entries(field).map(([name, desc]) => [name, desc.number * 8 + wireTypeOf(desc)]);
  return Object.fromEntries(tags) as Tags<S>;
}

function wireTypeOf(field: DescField): number {
  if (field.fieldKind === 'enum') return VARINT;
  if (field.fieldKind !== 'scalar') return LENGTH_DELIMITED;
  switch (field.scalar) {
    case ScalarType.STRING:
    case ScalarType.BYTES:
      return LENGTH_DELIMITED;
    case ScalarType.BOOL:
    case ScalarType.INT32:
    case ScalarType.INT64:
    case ScalarType.UINT32:
    case ScalarType.UINT64:
      return VARINT;
    default:
      throw new Error(`the usage codec does not support the type of the field ${field}`);
  }
}

/** A table from tag to handler, so that finding the handler of a field is one array access. */
export function byTag<Name extends string, Handler>(
  tags: Readonly<Record<Name, number>>,
  handlers: Readonly<Record<Name, Handler>>,
): readonly (Handler | undefined)[] {
  const entries = Object.entries<Handler>(handlers).map(
    ([name, handler]) => [tags[name as Name], handler] as const,
  );
  const table: (Handler | undefined)[] = Array.from({ length: 1 + Math.max(...entries.map(([tag]) => tag)) });
  for (const [tag, handler] of entries) table[tag] = handler;
  return table;
}
