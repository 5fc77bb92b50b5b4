import type { Database } from '@weighbridge/database';

/** Keeps what could not be read as usage, whole, with the reason: nothing that a proxy sent is thrown away. */
export async function quarantine(
  db: Database,
  message: { readonly payload: Uint8Array; readonly reason: string; readonly receivedAt: Date },
): Promise<void> {
  await db
    .insertInto('quarantined_messages')
    .values({
      payload: Buffer.from(message.payload),
      reason: message.reason,
      received_at: message.receivedAt,
    })
    .execute();
}
