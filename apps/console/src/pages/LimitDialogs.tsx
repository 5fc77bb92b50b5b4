import { ApiError, type components, type Operation } from '@weighbridge/client';
import { getPolicy, updatePolicy } from '@weighbridge/client/operations';
import { call, readerOf, useSpecs } from '../ui/dialogs.tsx';
import { ConfirmModal, CreateModal, EditModal, type IfMatch, type Read } from '../ui/resources.tsx';
import type { ShownFields } from '../ui/specs.ts';
import { visible } from '../ui/text.ts';

type Policy = components['schemas']['Policy'];
type Limit = components['schemas']['PolicyLimit'];

/** Limits are written with their policy: as an operation, one of them has the fields of an item. */
const LIMIT: Operation = {
  ...updatePolicy,
  body: updatePolicy.body.limits?.items?.fields ?? {},
  required: ['name'],
};
const FIELDS: ShownFields<keyof Limit> = {
  id: null,
  name: { hint: 'Errors, events and reports have it.' },
  limit_micro_usd: { label: 'Budget in USD', hint: 'Of each counter, in each window.' },
  limit_requests: { label: 'Requests', hint: 'The same in requests.' },
  limit_tokens: { label: 'Tokens', hint: 'The same in tokens, of input and output.' },
  window: { label: 'For each', initial: 'month', hint: 'After it, spend starts again.' },
  counter_scope: {
    label: 'Counted for each',
    initial: 'user',
    hint: 'key, principal, policy, or attribution: user, team, project, env, session, workload, namespace, label:<name>.',
  },
  models: { hint: 'One pattern a line, such as anthropic/*. Empty: all.' },
  when: { label: 'Only if', hint: 'One a line, such as env prod or labels.tier free. Empty: always.' },
  unknown: {
    label: 'Requests without that attribution',
    initial: 'share',
    hint: 'share: one counter for all of them. refuse: 400. skip: they do not count.',
  },
  timezone: { hint: 'Of the windows, such as Europe/Vienna. Empty: UTC.' },
  enforcement: { initial: 'enforce', hint: 'shadow only counts, off does nothing.' },
  thresholds: { label: 'Alert at these percentages', hint: 'One a line, such as 80.' },
  max_counters: { label: 'Counters that one key may open', hint: 'Empty: 100,000.' },
  others_limit_micro_usd: {
    label: 'Budget of all others in USD',
    hint: 'Of values beyond that number. Empty: as for each.',
  },
};

interface OfPolicy {
  readonly policyId: string;
  readonly onClose: () => void;
}
type OfLimit = OfPolicy & { readonly limit: Limit };

export function AddLimit({ policyId, onClose }: OfPolicy) {
  const add = (values: object) => changeLimits(policyId, (limits) => [...limits, values as Limit]);
  const specs = useSpecs(LIMIT, FIELDS, true);
  return <CreateModal title="Add a limit" submit="Add" specs={specs} create={add} onClose={onClose} />;
}

export function EditLimit({ policyId, limit, onClose }: OfLimit) {
  const read: Read = async () => {
    const { data, response } = await readerOf(getPolicy, policyId)();
    return { data: limitIn(data, limit) ?? {}, response };
  };
  const save = (changes: object, header: IfMatch) => {
    const change = (one: Limit) => (one.id === limit.id ? { ...one, ...changes } : one);
    return changeLimits(policyId, (limits) => limits.map(change), header, limit);
  };
  return (
    <EditModal
      title={`Edit ${visible(limit.name)}`}
      id={policyId}
      specs={useSpecs(LIMIT, FIELDS, false)}
      read={read}
      save={save}
      onClose={onClose}
    />
  );
}

export function RemoveLimit({ policyId, limit, onClose }: OfLimit) {
  const remove = (header: IfMatch) =>
    changeLimits(policyId, (limits) => limits.filter(({ id }) => id !== limit.id), header);
  return (
    <ConfirmModal
      title={`Delete ${visible(limit.name)}`}
      submit="Delete the limit"
      danger
      id={policyId}
      read={readerOf(getPolicy, policyId)}
      act={remove}
      onClose={onClose}
    >
      <p>It binds no request any more, and its overrides end. What was spent stays in the ledger.</p>
    </ConfirmModal>
  );
}

/** Writes the limits of a policy as they are now, changed; with a header, only if the policy is still what was read. */
async function changeLimits(
  policyId: string,
  change: (limits: readonly Limit[]) => Limit[],
  header?: IfMatch,
  limit?: Limit,
): Promise<unknown> {
  const { data, response } = await readerOf(getPolicy, policyId)();
  const etag = response.headers.get('etag');
  const asRead = header ?? (etag === null ? {} : { 'if-match': etag });
  try {
    return await call(updatePolicy, policyId, asRead, { limits: change((data as Policy).limits) });
  } catch (error) {
    throw error instanceof ApiError ? errorOf(error, limit) : error;
  }
}

/** The error as one of this limit, whose form is shown: its field, and what the limit is now. */
function errorOf({ status, code, message, param, request_id, details }: ApiError, limit?: Limit): ApiError {
  const current = limit && details.current ? { current: limitIn(details.current, limit) ?? {} } : {};
  return new ApiError({
    ...{ status, code, message, details: { ...details, ...current } },
    param: param?.replace(/^limits(\[\d+\]|[./]\d+)[./]/, '') ?? null,
    ...(request_id !== undefined && { requestId: request_id }),
  });
}

function limitIn(policy: unknown, { id }: Limit): Limit | undefined {
  return (policy as Policy | undefined)?.limits?.find((one) => one.id === id);
}
