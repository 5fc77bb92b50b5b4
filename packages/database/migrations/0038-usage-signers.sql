-- Whether the proxy of an epoch signs its usage, by what it told the control plane. Null: not known, since a control plane of
-- release 0.1.0 registered it.
ALTER TABLE producers ADD COLUMN signs_usage boolean;
