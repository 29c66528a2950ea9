// What was done to an object and was refused, under all the names that it had.
import { AuditList } from '../../access/audit_list.tsx';

export const HistoryTab = ({ uri }: { readonly uri: string }) => <AuditList filter={{ object: uri }} label="History" />;
