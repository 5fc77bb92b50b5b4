import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  FindResponseResponse_Ownership,
  type FindResponseResponseSchema,
  type ListUnsettledResponsesResponseSchema,
  type RecordResponseRequest,
  type SettleResponseRequest,
  SettleResponseResponse_Result,
  type SettleResponseResponseSchema,
  type TokenUsage,
  type UsageDetails,
} from '@weighbridge/contracts';
import {
  type MeteredUsage,
  NO_TOOL_USES,
  STANDARD_SERVICE,
  serviceConditions,
  usageOf,
} from '@weighbridge/domain';
import type { OwnedObjects, Ownership, UnsettledResponse } from '../features/responses/responses.service.ts';
import type { FinalResponse, Settlement } from '../features/responses/settleResponse.service.ts';

/** Stored responses as the protobuf messages of proxies. */

export function ownedObjects(request: RecordResponseRequest): OwnedObjects {
  const { responseId, connectorId, principalId, keyId, unfinished, objectIds, areLasting, containerGb } =
    request;
  return { responseId, connectorId, principalId, keyId, unfinished, objectIds, areLasting, containerGb };
}

/** `objects` are the owners of the other ids of the request. */
export function ownershipMessage(
  owner: Ownership,
  objects: readonly Ownership[],
): MessageInitShape<typeof FindResponseResponseSchema> {
  const owners = objects.map((one) => {
    const { ownership, connectorId, containerGb } = ownerMessage(one);
    return { ownership, connectorId, containerGb };
  });
  return { ...ownerMessage(owner), objects: owners };
}

function ownerMessage(owner: Ownership) {
  switch (owner.kind) {
    case 'own': {
      const { connectorId, containerGb, unfinished } = owner;
      return {
        ownership: FindResponseResponse_Ownership.OWN,
        connectorId,
        containerGb,
        ...(unfinished && { unfinished }),
      };
    }
    case 'foreign':
      return { ownership: FindResponseResponse_Ownership.FOREIGN, connectorId: '', containerGb: 0 };
    case 'unknown':
      return { ownership: FindResponseResponse_Ownership.UNKNOWN, connectorId: '', containerGb: 0 };
  }
}

export function unsettledMessage(
  responses: readonly UnsettledResponse[],
): MessageInitShape<typeof ListUnsettledResponsesResponseSchema> {
  return { responses: responses.map(({ ageMs, ...response }) => ({ ...response, ageMs: BigInt(ageMs) })) };
}

/** With `acceptsUnsigned`, a caller that names no producer may be any. */
export function finalResponse(request: SettleResponseRequest, acceptsUnsigned: boolean): FinalResponse {
  const { responseId, connectorId, principalId, usage, details, status, producerId, others } = request;
  return {
    ...{ responseId, connectorId, principalId, status },
    producerId: producerId === '' && acceptsUnsigned ? undefined : producerId,
    usage: usage && meteredUsage(usage, details),
    toolUses: details?.toolUses ?? NO_TOOL_USES,
    others: others.flatMap(({ model, usage: used }) => (used ? [{ model, tokens: usageOf(used) }] : [])),
    pricedModel: details?.pricedModel ?? '',
  };
}

function meteredUsage(usage: TokenUsage, details: UsageDetails | undefined): MeteredUsage {
  if (!details) return { tokens: usageOf(usage), service: STANDARD_SERVICE, toolUses: NO_TOOL_USES };
  const { serviceTier, speed, geography, toolUses } = details;
  return { tokens: usageOf(usage), service: serviceConditions(serviceTier, speed, geography), toolUses };
}

export function settlementMessage(
  settlement: Settlement,
): MessageInitShape<typeof SettleResponseResponseSchema> {
  const result = RESULTS[settlement.kind];
  if (settlement.kind !== 'settled') return { result };
  const { costNanoUsd, correctionNanoUsd, unpriced } = settlement;
  return { result, costNanoUsd, correctionNanoUsd, unpriced: [...unpriced] };
}

const RESULTS: Record<Settlement['kind'], SettleResponseResponse_Result> = {
  settled: SettleResponseResponse_Result.SETTLED,
  already_settled: SettleResponseResponse_Result.ALREADY_SETTLED,
  pending: SettleResponseResponse_Result.PENDING,
  not_maker: SettleResponseResponse_Result.NOT_MAKER,
  unknown: SettleResponseResponse_Result.UNKNOWN,
};
