import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { TokenUsageSchema, UsageEventSchema } from '@weighbridge/contracts';
import type { TokenUsage } from '@weighbridge/domain';

type Field = keyof typeof UsageEventSchema.field;

const FIELDS = UsageEventSchema.field;
const USAGE = TokenUsageSchema.field;

/**
 * Writes fields of a usage event as the generated code would, which makes an object of it first and takes three times as
 * long. What is empty or zero is left out, as there.
 */
export class EventWriter {
  readonly #writer = new BinaryWriter();

  text(field: Field, value: string): this {
    if (value !== '') this.#writer.tag(FIELDS[field].number, WireType.LengthDelimited).string(value);
    return this;
  }

  /** Up to 2³² − 1; of an enumeration, its value. */
  count(field: Field, value: number): this {
    if (value !== 0) this.#writer.tag(FIELDS[field].number, WireType.Varint).uint32(value);
    return this;
  }

  flag(field: Field, value: boolean): this {
    if (value) this.#writer.tag(FIELDS[field].number, WireType.Varint).bool(value);
    return this;
  }

  int64(field: Field, value: bigint | number): this {
    if (value !== 0n && value !== 0) this.#writer.tag(FIELDS[field].number, WireType.Varint).int64(value);
    return this;
  }

  /** Where a field says by being there that it is known. */
  known(field: Field, value: number | undefined): this {
    if (value !== undefined) this.#writer.tag(FIELDS[field].number, WireType.Varint).uint32(value);
    return this;
  }

  usage(used: TokenUsage): this {
    const writer = this.#writer.tag(FIELDS.usage.number, WireType.LengthDelimited).fork();
    const count = (field: keyof typeof USAGE, value: number) => {
      if (value !== 0) writer.tag(USAGE[field].number, WireType.Varint).uint32(value);
    };
    count('input', used.inputTokens);
    count('cacheRead', used.cacheReadTokens);
    count('cacheWrite', used.cacheWriteTokens);
    count('cacheWrite1h', used.cacheWrite1hTokens);
    count('output', used.outputTokens);
    writer.join();
    return this;
  }

  /** Fields that were written elsewhere. */
  raw(bytes: Uint8Array): this {
    this.#writer.raw(bytes);
    return this;
  }

  finish(): Uint8Array {
    return this.#writer.finish();
  }
}
