"""Relocate an employee: documents, departments and country rules that conflict, and one that changes on the way."""
