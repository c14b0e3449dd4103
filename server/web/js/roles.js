// What a role may do. The server decides; the page leaves out what the server would refuse.

export const ROLES = ["viewer", "editor", "reviewer", "admin"];
const isAtLeast = (me, role) => ROLES.indexOf(me?.role) >= ROLES.indexOf(role);

export const mayEdit = (me) => isAtLeast(me, "editor"); // edit by hand, ask for changes, decide, undo
export const mayAudit = (me) => isAtLeast(me, "reviewer");
export const mayAdminister = (me) => isAtLeast(me, "admin");
export const mayManage = (me, automation) => mayAdminister(me) || (mayEdit(me) && automation.userId === me?.userId);
export const maySeeRuns = (me, automation) => isAtLeast(me, "reviewer") || automation.userId === me?.userId;
export const mayTakeOver = (me, automation) => mayAdminister(me) && automation.userId !== me.userId;
